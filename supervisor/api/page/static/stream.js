// Listens to what changes in the cluster (/api/v1/events), and has what is shown read then. The header with the token is
// why this is no EventSource. While no stream can be had, everything is read again and again, as without one.

import { ReadError, hint, open } from "./reading.js";

const PATH = "/events";
const PREFIX = "/api/v1";
// The supervisor says at least every 15 seconds that it is there.
const SILENT_MAX_MS = 25000;
const AGAIN_MS = 2000;
const AGAIN_MAX_MS = 30000;
const TEXT_MAX = 1 << 20;

/** Listens until `stop`; not while nobody sees the tab. `onState` is called when a stream begins and when it ends, `onJob` with
 * what is said of each job that has another state. */
export class Stream {
  constructor(onState, onJob) {
    Object.assign(this, { onState, onJob, lastId: null, failures: 0, abort: null, timer: null, isStopped: false, isUp: false });
    this.wake = () => (document.visibilityState === "visible" ? this.listen() : this.leave());
    document.addEventListener("visibilitychange", this.wake);
    this.listen();
  }

  stop() {
    this.isStopped = true;
    document.removeEventListener("visibilitychange", this.wake);
    this.leave();
  }

  leave() {
    clearTimeout(this.timer);
    this.abort?.abort();
  }

  async listen() {
    if (this.isStopped || this.abort !== null || document.visibilityState !== "visible") return;
    clearTimeout(this.timer);
    const abort = (this.abort = new AbortController());
    try {
      await this.hear(abort);
    } catch (error) {
      if (!(error instanceof ReadError) && !(error instanceof TypeError) && error.name !== "AbortError") console.error(error);
    }
    clearTimeout(this.silence);
    this.abort = null;
    this.say(false);
    this.timer = setTimeout(() => this.listen(), Math.min(AGAIN_MAX_MS, AGAIN_MS * 2 ** Math.min(this.failures, 4)));
    this.failures += 1;
  }

  async hear(abort) {
    this.expect(abort);
    const answer = await open(PATH, this.lastId === null ? {} : { "Last-Event-ID": this.lastId }, abort.signal);
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      this.expect(abort);
      const parts = (text + value).split("\n\n");
      text = parts.pop();
      for (const part of parts) this.take(part);
      if (text.length > TEXT_MAX) return abort.abort();
    }
  }

  /** Ends a stream that has been silent for too long: the host may be gone. */
  expect(abort) {
    clearTimeout(this.silence);
    this.silence = setTimeout(() => abort.abort(), SILENT_MAX_MS);
  }

  take(part) {
    const event = {};
    for (const line of part.split("\n")) {
      const colon = line.indexOf(": ");
      if (colon > 0) event[line.slice(0, colon)] = line.slice(colon + 2);
    }
    this.say(true);  // also with a comment: it goes on after the last event
    if (event.event === undefined) return;
    const data = JSON.parse(event.data);
    if (event.event === "reset") hint([], true);
    if (event.event === "changed") hint(data.documents.map((path) => path.slice(PREFIX.length)), data.every_job);
    if (event.event === "job") this.onJob(data);
    this.lastId = event.id;
  }

  say(isUp) {
    if (isUp) this.failures = 0;
    if (this.isUp === isUp) return;
    this.isUp = isUp;
    this.onState(isUp);
  }
}
