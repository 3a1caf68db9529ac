// Reads documents of the API with the token, and reads them again and again. Nothing is written to the cache of the
// browser; the token is in the storage of this tab only, and ends with it.

import { noteServerTime } from "./format.js";

const KEY = "spark-supervisor-token";
const PREFIX = "/api/v1";
const PERIOD_MS = 2000;
const PERIOD_MAX_MS = 30000;
const TIMEOUT_MS = 60000;
// A reading that takes long is for a large cluster: it is repeated less often, so that a tab reads a fifth of the time at most.
const REST = 5;

export const token = {
  get: () => sessionStorage.getItem(KEY),
  set: (text) => sessionStorage.setItem(KEY, text),
  forget: () => sessionStorage.removeItem(KEY),
};

/** Says why there is no document. `status` is 0 if nobody answered. */
export class ReadError extends Error {
  constructor(status, text, remedy) {
    super(text);
    this.status = status;
    this.remedy = remedy;
  }
}

/** Returns the document of a path and its tag, or null for the document if it is as `tag` says. Throws ReadError. */
export async function read(path, tag = null, signal = undefined) {
  const headers = { Authorization: `Bearer ${token.get() ?? ""}`, Accept: "application/json" };
  if (tag !== null) headers["If-None-Match"] = tag;
  const limits = [AbortSignal.timeout(TIMEOUT_MS), ...(signal ? [signal] : [])];
  let answer;
  try {
    answer = await fetch(PREFIX + path, {
      headers,
      cache: "no-store",
      credentials: "omit",
      redirect: "error",
      signal: AbortSignal.any(limits),
    });
    noteServerTime(answer.headers.get("Date"));
    if (answer.status === 304) return { document: null, tag };
    const document = await answer.json();
    if (answer.ok) return { document, tag: answer.headers.get("ETag") };
    throw new ReadError(answer.status, document.error ?? `status ${answer.status}`, document.remedy);
  } catch (error) {
    if (error instanceof ReadError || signal?.aborted) throw error;
    throw new ReadError(answer?.status ?? 0, "this supervisor does not answer", "another one may: each serves this page");
  }
}

/** Reads one path again and again until `stop`; not while nobody sees the tab. `onDocument` is called if it has changed,
 * `onRead` after every reading, with the error or null, and with itself: only it knows whether its path can be read. */
export class Poll {
  constructor(path, onDocument, onRead, periodMs = PERIOD_MS) {
    Object.assign(this, { path, onDocument, onRead, periodMs, tag: null, timer: null, isReading: false, failures: 0 });
    this.abort = new AbortController();
    this.wake = () => document.visibilityState === "visible" && this.now();
    document.addEventListener("visibilitychange", this.wake);
    this.now();
  }

  stop() {
    this.abort.abort();
    clearTimeout(this.timer);
    document.removeEventListener("visibilitychange", this.wake);
  }

  async now() {
    if (this.isReading || this.abort.signal.aborted) return;
    clearTimeout(this.timer);
    this.isReading = true;
    const began = performance.now();
    let error = null;
    try {
      const found = await read(this.path, this.tag, this.abort.signal);
      this.tag = found.tag;
      if (found.document !== null && !this.abort.signal.aborted) this.onDocument(found.document);
    } catch (caught) {
      error = caught;
    }
    this.isReading = false;
    if (this.abort.signal.aborted) return;
    this.failures = error === null ? 0 : this.failures + 1;
    this.onRead(error, this);
    this.again(performance.now() - began);
  }

  again(tookMs) {
    if (document.visibilityState !== "visible" || this.abort.signal.aborted) return;
    const base = this.failures ? this.periodMs * 2 ** Math.min(this.failures, 4) : Math.max(this.periodMs, tookMs * REST);
    this.timer = setTimeout(() => this.now(), Math.min(base, PERIOD_MAX_MS));
  }
}
