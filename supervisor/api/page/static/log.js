// Shows how the output of a driver ends, and goes on with it. The output is hostile: it is put in as text, without what a
// terminal would obey, and lines and their number are bounded.

import { copyable } from "./command.js";
import { el } from "./dom.js";
import { ReadError, open } from "./reading.js";

const TAIL = 100;
const LINES_MAX = 1000;
const LINE_MAX = 2000;
const PAUSE_MS = 1500;
const AGAIN_MS = 15000;
const TIMEOUT_MS = 60000;
const NEXT = /^<\/api\/v1(\/jobs\/[a-z0-9-]+\/logs\?[^<>\s]+)>; rel="next"$/;
const COLOURS = /\x1b\[[0-9;:]*m/g;
// Control characters but tab, and those that turn the direction of text around.
const INVISIBLE = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/** Returns a line as it is shown: colours of a terminal are left out, other control characters are visible, and what is too
 * long is cut. */
export function shownLine(line) {
  const plain = line.replace(/\r$/, "").replace(COLOURS, "");
  const cut = plain.length > LINE_MAX ? `${plain.slice(0, LINE_MAX)} … (${plain.length - LINE_MAX} more characters)` : plain;
  return cut.replace(INVISIBLE, (sign) => `\\u${sign.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** Is the card of the log of one job. It reads while it is open and somebody sees the tab. */
export class LogTail {
  constructor(name) {
    Object.assign(this, { name, abort: null, rest: "", attempt: null });
    this.note = el("div", { class: "note", role: "status" });
    this.lines = el("pre", { class: "log", tabindex: "0", "aria-label": "Output of the driver" });
    this.element = el("details", { class: "card logs", on: { toggle: () => this.turn() } },
      el("summary", {}, `Log: the last ${TAIL} lines, and what follows`), this.note, this.lines);
    this.wake = () => this.turn();
    document.addEventListener("visibilitychange", this.wake);
  }

  stop() {
    document.removeEventListener("visibilitychange", this.wake);
    this.abort?.abort();
  }

  /** Begins anew when it is opened, or seen again. */
  turn() {
    const isWanted = this.element.open && document.visibilityState === "visible";
    if (isWanted === (this.abort !== null)) return;
    this.abort?.abort();
    this.abort = null;
    if (isWanted) this.follow((this.abort = new AbortController()));
  }

  async follow(abort) {
    const begin = `/jobs/${encodeURIComponent(this.name)}/logs?tail=${TAIL}&follow=job`;
    let target = begin;
    while (!abort.signal.aborted) {
      let pauseMs = 0;
      try {
        if (target === begin) this.clear();
        const [following, size] = await this.readPiece(target, abort);
        if (following === null) return this.say("It has ended.");
        target = following;
        pauseMs = size ? 0 : PAUSE_MS;
      } catch (error) {
        if (abort.signal.aborted) return;
        this.complain(error);
        const isToBeginAnew = error.status && error.status !== 503;
        [target, pauseMs] = [isToBeginAnew ? begin : target, AGAIN_MS];
      }
      await new Promise((done) => setTimeout(done, pauseMs));
    }
  }

  /** Shows one piece. Returns where the next one is, or null, and how long this one was. */
  async readPiece(target, abort) {
    const answer = await open(target, {}, AbortSignal.any([abort.signal, AbortSignal.timeout(TIMEOUT_MS)]));
    const bytes = await answer.arrayBuffer();
    if (abort.signal.aborted) return [null, 0];
    const attempt = answer.headers.get("Log-Attempt");
    if (attempt !== this.attempt) this.begin(attempt);
    if (answer.headers.get("Log-Lost") === "true") this.add("… some output is missing here\n");
    this.say(`Attempt ${attempt}`);
    this.add(this.decoder.decode(bytes, { stream: true }));
    return [NEXT.exec(answer.headers.get("Link") ?? "")?.[1] ?? null, bytes.byteLength];
  }

  clear() {
    this.attempt = null;
    this.rest = "";
    this.lines.replaceChildren();
  }

  begin(attempt) {
    if (this.rest) this.add("\n");
    if (this.attempt !== null) this.lines.append(el("span", { class: "quiet" }, `— attempt ${attempt} —\n`));
    this.attempt = attempt;
    this.decoder = new TextDecoder();
    this.rest = "";
  }

  add(text) {
    const isAtEnd = this.lines.scrollTop + this.lines.clientHeight >= this.lines.scrollHeight - 8;
    const lines = (this.rest + text).split("\n");
    this.partial?.remove();
    this.partial = null;
    // Of a line without an end only so much is kept that it is known to be long.
    this.rest = lines.pop().slice(0, LINE_MAX * 2);
    this.lines.append(...lines.slice(-LINES_MAX).map((line) => el("span", {}, `${shownLine(line)}\n`)));
    if (this.rest) this.lines.append((this.partial = el("span", {}, shownLine(this.rest))));
    while (this.lines.childElementCount > LINES_MAX) this.lines.firstElementChild.remove();
    if (isAtEnd) this.lines.scrollTop = this.lines.scrollHeight;
  }

  say(text) {
    if (this.note.textContent !== text) this.note.replaceChildren(el("p", { class: "quiet" }, text));
  }

  complain(error) {
    if (!(error instanceof ReadError)) return this.say("This supervisor does not answer.");
    if (error.status !== 421) return this.say(error.message);
    const { host, server } = error.document ?? {};
    const isPlain = /^https?:\/\/[\w.:[\]-]+\/?$/.test(server ?? "");
    const command = `spark-supervisor logs ${this.name}`;
    const way = isPlain ? `${command} --server ${server}` : /^[A-Za-z0-9][\w.-]*$/.test(host ?? "") ? `ssh ${host} ${command}` : null;
    this.note.replaceChildren(
      el("p", {}, "It is on ", el("b", {}, host ?? "another host"), isPlain ? ", whose page shows it: " : "",
        isPlain ? el("a", { href: `${server.replace(/\/$/, "")}/#/jobs/${this.name}`, rel: "noopener noreferrer", target: "_blank" }, server) : null),
      way ? copyable(way) : el("p", { class: "quiet" }, error.message));
  }
}
