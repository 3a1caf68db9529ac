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
// While the supervisor says what changes: how soon a document is read when it does, and how often although it does not.
const HINT_MS = 1000;
const QUIET_MS = 15000;
const PRIVATE = { cache: "no-store", credentials: "omit", redirect: "error" };

export const token = {
  get: () => sessionStorage.getItem(KEY),
  set: (text) => sessionStorage.setItem(KEY, text),
  forget: () => sessionStorage.removeItem(KEY),
};

function authorization() {
  return { Authorization: `Bearer ${token.get() ?? ""}` };
}

/** Says why there is no document. `status` is 0 if nobody answered. */
export class ReadError extends Error {
  constructor(status, text, remedy, document) {
    super(text);
    Object.assign(this, { status, remedy, document });
  }
}

/** Returns the document of a path and its tag, or null for the document if it is as `tag` says. Throws ReadError. */
export async function read(path, tag = null, signal = undefined) {
  const headers = { ...authorization(), Accept: "application/json" };
  if (tag !== null) headers["If-None-Match"] = tag;
  const limits = [AbortSignal.timeout(TIMEOUT_MS), ...(signal ? [signal] : [])];
  let answer;
  try {
    answer = await fetch(PREFIX + path, { headers, ...PRIVATE, signal: AbortSignal.any(limits) });
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

/** Asks for what does not end by itself. Returns the answer, whose body comes bit by bit. Throws ReadError. */
export async function open(path, more, signal) {
  const answer = await fetch(PREFIX + path, { headers: { ...authorization(), ...more }, ...PRIVATE, signal });
  noteServerTime(answer.headers.get("Date"));
  if (!answer.ok) {
    const document = await answer.json().catch(() => ({}));
    throw new ReadError(answer.status, document.error ?? `status ${answer.status}`, document.remedy, document);
  }
  return answer;
}

const polls = new Set();
let isTold = false;

/** Notes whether the supervisor says what changes: then what it speaks of is read only now and then besides. */
export function noteStream(isUp) {
  isTold = isUp;
  if (!isUp) for (const poll of polls) poll.hint();
}

/** Has those paths read that have changed, and everything of the jobs among them. `isAny` means: whatever there is. */
export function hint(paths, isAny) {
  for (const poll of polls) if (isAny || paths.some((path) => poll.document === path || poll.document.startsWith(`${path}/`))) poll.hint();
}

/** Reads one path again and again until `stop`; not while nobody sees the tab. `onDocument` is called if it has changed,
 * `onRead` after every reading, with the error or null, and with itself: only it knows whether its path can be read.
 * `isSpokenOf` says that a stream tells when the document changes. */
export class Poll {
  constructor(path, onDocument, onRead, { periodMs = PERIOD_MS, isSpokenOf = true } = {}) {
    Object.assign(this, { path, onDocument, onRead, periodMs, isSpokenOf, tag: null, timer: null, isReading: false, failures: 0 });
    Object.assign(this, { document: path.split("?")[0], isHinted: false, nextMs: 0 });
    this.abort = new AbortController();
    this.wake = () => document.visibilityState === "visible" && this.now();
    document.addEventListener("visibilitychange", this.wake);
    polls.add(this);
    this.now();
  }

  stop() {
    polls.delete(this);
    this.abort.abort();
    clearTimeout(this.timer);
    document.removeEventListener("visibilitychange", this.wake);
  }

  /** Reads soon. */
  hint() {
    this.isHinted = true;
    if (this.isReading || this.failures || document.visibilityState !== "visible" || this.abort.signal.aborted) return;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.now(), Math.max(0, this.nextMs - performance.now()));
  }

  async now() {
    if (this.isReading || this.abort.signal.aborted) return;
    clearTimeout(this.timer);
    this.isReading = true;
    const wasHinted = this.isHinted;
    this.isHinted = false;
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
    this.again(performance.now() - began, wasHinted);
  }

  again(tookMs, wasHinted) {
    if (document.visibilityState !== "visible" || this.abort.signal.aborted) return;
    const restMs = Math.min(PERIOD_MAX_MS, tookMs * REST);
    this.nextMs = performance.now() + Math.max(HINT_MS, restMs);
    if (this.isHinted && !this.failures) return this.hint();
    // Readings are shared for a moment: the one after a hint may have begun before the change, so one more follows.
    const isQuiet = isTold && this.isSpokenOf && !wasHinted;
    const base = this.failures ? this.periodMs * 2 ** Math.min(this.failures, 4) : Math.max(isQuiet ? QUIET_MS : this.periodMs, restMs);
    this.timer = setTimeout(() => this.now(), Math.min(base, PERIOD_MAX_MS));
  }
}
