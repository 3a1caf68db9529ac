// Puts the page together: who may see it, what stands above it, and which view the address asks for.

import { el, rebuild, setText } from "./dom.js";
import { FleetView } from "./fleet.js";
import { age, tickAges } from "./format.js";
import { JobView } from "./job.js";
import { MissingView } from "./missing.js";
import { Poll, ReadError, noteStream, read, token } from "./reading.js";
import { Stream } from "./stream.js";

const bar = document.getElementById("bar");
const banners = document.getElementById("banners");
const main = document.getElementById("main");
const SAID_MS = 10000;
const OTHERS_MAX = 5;
const page = { view: null, status: null, poll: null, stream: null, errors: new Map() };

// -- who may see it ---------------------------------------------------------------------------------------------------

function askForToken(complaint = "") {
  leave();
  const input = el("input", { id: "token", type: "password", autocomplete: "off", spellcheck: "false", required: true });
  const trouble = el("p", { class: "trouble", role: "alert" }, complaint);
  const form = el(
    "form",
    { class: "login", on: { submit: (event) => (event.preventDefault(), enter(input, trouble)) } },
    el("h1", {}, "spark-supervisor"),
    el("label", { for: "token" }, "Token of the API"),
    input,
    el("button", { type: "submit", class: "primary" }, "Show the cluster"),
    trouble,
    el("p", { class: "quiet" }, "It is kept in this tab only. A file in api.token_files of supervisor.yaml holds it."),
  );
  main.replaceChildren(form);
  input.focus();
}

async function enter(input, trouble) {
  const given = input.value.trim();
  if (!/^[\x21-\x7e]+$/.test(given)) return setText(trouble, "This is no token: it is one line without blanks.");
  token.set(given);
  try {
    page.status = (await read("/status")).document;
  } catch (error) {
    if (error.status === 401) {
      token.forget();
      input.select();
      return setText(trouble, "This token is not known here.");
    }
    if (error instanceof ReadError && error.status === 0) return setText(trouble, `${error.message}: ${error.remedy}`);
  }
  start();
}

function leave() {
  page.poll?.stop();
  page.view?.stop();
  page.stream?.stop();
  Object.assign(page, { poll: null, view: null, status: null, stream: null, errors: new Map() });
  bar.replaceChildren();
  banners.replaceChildren();
  document.body.classList.remove("inside");
}

function start() {
  document.body.classList.add("inside");
  makeBar();
  page.poll = new Poll("/status", showStatus, noteRead);
  page.stream = new Stream(noteState, sayJob);
  if (page.status) showStatus(page.status);
  route();
}

function noteState(isUp) {
  noteStream(isUp);
  showFreshness();
}

/** Says that a job has another state, for who does not see it. */
function sayJob({ name, state, before }) {
  if (state === null || before === null) return;
  setText(parts.said, `${name}: ${before} → ${state}`);
  clearTimeout(parts.silence);
  parts.silence = setTimeout(() => setText(parts.said, ""), SAID_MS);
}

/** Is called after every reading of any document. What is shown is current while each of them was read. */
function noteRead(error, poll) {
  if (error?.status === 401) {
    token.forget();
    askForToken("The token does not count any more.");
    return;
  }
  page.errors.delete(poll);
  if (error !== null) page.errors.set(poll, error);
  showFreshness();
}

// -- what stands above it ---------------------------------------------------------------------------------------------

const parts = {};

function makeBar() {
  parts.cluster = el("span", { class: "cluster" });
  parts.leader = el("span", { class: "leader" });
  parts.health = el("span", { class: "health" });
  parts.old = el("span", { class: "old" });
  parts.fresh = el("span", { class: "fresh", role: "status" });
  parts.others = el("span", { class: "others" });
  parts.said = el("span", { class: "said", role: "status" });
  const leaveButton = el("button", { type: "button", on: { click: () => (token.forget(), askForToken()) } }, "Sign out");
  bar.replaceChildren(
    el("a", { class: "home", href: "#/" }, el("img", { src: "/page/icon.svg", alt: "", width: 20, height: 20 }), parts.cluster),
    parts.leader, parts.health, parts.old, el("span", { class: "fill" }), parts.said, parts.fresh, parts.others, leaveButton,
  );
  showFreshness();
}

function showFreshness() {
  if (!parts.fresh) return;
  for (const poll of page.errors.keys()) if (poll.abort.signal.aborted) page.errors.delete(poll);
  const [error = null] = page.errors.values();
  parts.fresh.classList.toggle("stale", error !== null);
  const isOld = page.errors.has(page.poll);
  for (const part of [parts.leader, parts.health]) part.classList.toggle("old", isOld);
  setText(parts.old, isOld ? "as it was last read" : "");
  parts.fresh.title = page.stream?.isUp ? "the supervisor tells what changes" : "it asks every 2 seconds";
  setText(parts.fresh, error === null ? "live" : `not current: ${error.message}`);
  showOthers(error === null ? [] : othersOf(page.status));
}

/** Shows links to this view at `others`, the pages of other supervisors. */
function showOthers(others) {
  rebuild(parts.others, [others, location.hash], () => others.map(({ id, url }) =>
    el("a", { href: new URL(`/${location.hash}`, url), rel: "noopener noreferrer", title: "the page of this supervisor" }, id)));
}

/** Returns the other supervisors of which the last status has told where their API is. */
function othersOf(status) {
  return (status?.supervisors ?? [])
    .map(({ id, api }) => ({ id, url: webOriginOf(api) }))
    .filter(({ url }) => url !== null && url !== location.origin)
    .slice(0, OTHERS_MAX);
}

/** Returns the origin of an address, or null if it is none of the web's: it comes from ZooKeeper. */
function webOriginOf(address) {
  try {
    const url = new URL(address);
    return ["http:", "https:"].includes(url.protocol) ? url.origin : null;
  } catch {
    return null;
  }
}

function showStatus(status) {
  page.status = status;
  setText(parts.cluster, status.cluster);
  const known = status.zookeeper.session !== null;
  rebuild(parts.leader, [status.leader, status.epoch, known], () => [
    el("b", {}, status.leader ?? (known ? "nobody" : "unknown")),
    status.leader ? ` leads (epoch ${status.epoch})` : known ? " leads" : " who leads",
  ]);
  rebuild(parts.health, [status.zookeeper.state, known, status.store], () => [
    light(known, `ZooKeeper ${known ? status.zookeeper.state : "does not answer"}`, status.zookeeper.hosts),
    light(status.store.ok, status.store.ok ? "store ok" : "store unreachable", status.store.url),
  ]);
  showBanners(status);
  page.view?.onStatus(status);
}

function light(isOk, text, title) {
  return el("span", { class: `light ${isOk ? "good" : "bad"}`, title }, text);
}

function showBanners(status) {
  const facts = [status.paused, status.pause, status.distrust, status.accepted?.waiting, status.leader, status.zookeeper.session];
  rebuild(banners, facts, () => {
    const found = [];
    if (status.paused) {
      const { by, since, reason } = status.pause ?? {};
      found.push(["The cluster is paused", by ? ` by ${by} for ` : "", since ? age(since) : "", reason ? ` (${reason})` : "",
        ": nothing is started or cleaned. ", el("code", {}, "spark-supervisor unpause"), " ends it."]);
    }
    if (status.distrust)
      found.push([`The registry is not trusted: ${status.distrust}. Nothing is started, stopped or cleaned; see `,
        el("code", {}, "spark-supervisor accept-registry --help"), "."]);
    if (status.accepted?.waiting) found.push([status.accepted.waiting]);
    if (status.zookeeper.session !== null && !status.leader)
      found.push(["Nobody leads: jobs run on, and stop when told to; nothing is started."]);
    return found.map((nodes) => el("p", { class: "banner" }, ...nodes));
  });
}

// -- which view -------------------------------------------------------------------------------------------------------

function viewOf(name) {
  if (name === undefined) return new FleetView(noteRead);
  return /^[a-z0-9-]+$/.test(name) ? new JobView(name, noteRead) : new MissingView(decoded(name));
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function route() {
  const name = /^#\/jobs\/(.+)$/.exec(location.hash)?.[1];
  const wanted = name === undefined ? "fleet" : `job ${name}`;
  if (page.view?.wanted === wanted) return;
  page.view?.stop();
  page.view = viewOf(name);
  page.view.wanted = wanted;
  main.replaceChildren(page.view.element);
  if (page.status) page.view.onStatus(page.status);
  document.title = name === undefined ? "spark-supervisor" : `${name} · spark-supervisor`;
  showFreshness();
  page.view.onShown();
}

window.addEventListener("hashchange", () => page.poll && route());
document.addEventListener("keydown", (event) => {
  if (!event.ctrlKey && !event.metaKey && !event.altKey) page.view?.onKey(event);
});
setInterval(tickAges, 1000);
if (token.get()) start();
else askForToken();
