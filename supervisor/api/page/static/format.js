// Writes numbers, instants and durations for people. Ages count from the clock of the server, so that a wrong clock of the
// browser's host changes nothing.

import { el, setText } from "./dom.js";

const INSTANT = /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|\+00:00)/g;
let serverAheadMs = 0;

/** Notes the header Date of an answer. It has whole seconds. */
export function noteServerTime(date) {
  const aheadMs = Date.parse(date ?? "") - Date.now();
  if (!Number.isNaN(aheadMs)) serverAheadMs = Math.abs(aheadMs) > 2000 ? aheadMs : 0;
}

export function nowMs() {
  return Date.now() + serverAheadMs;
}

/** Returns a duration in its two largest units. */
export function span(seconds) {
  const s = Math.max(0, seconds);
  if (s < 60) return `${Math.floor(s)} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

function ageOf(iso) {
  const seconds = (nowMs() - Date.parse(iso)) / 1000;
  return seconds < -1 ? `in ${span(-seconds)}` : span(seconds);
}

export function localTime(iso) {
  const at = new Date(iso);
  if (Number.isNaN(at.getTime())) return iso;
  const sameDay = at.toDateString() === new Date(nowMs()).toDateString();
  const time = at.toLocaleTimeString(undefined, { hour12: false });
  return sameDay ? time : `${at.toLocaleDateString(undefined, { day: "2-digit", month: "short" })} ${time}`;
}

/** Returns an element that says how long ago an instant is, and goes on saying it. */
export function age(iso, suffix = "") {
  const node = el("time", { "data-suffix": suffix });
  setAge(node, iso);
  return node;
}

export function setAge(node, iso) {
  if (!iso || Number.isNaN(Date.parse(iso))) {
    node.removeAttribute("datetime");
    node.removeAttribute("title");
    setText(node, "");
    return;
  }
  if (node.dateTime !== iso) {
    node.dateTime = iso;
    node.title = new Date(iso).toLocaleString();
  }
  setText(node, ageOf(iso) + (node.dataset.suffix ?? ""));
}

export function tickAges() {
  for (const node of document.querySelectorAll("time[data-suffix][datetime]")) setAge(node, node.dateTime);
}

/** Returns an element with the local time of an instant. */
export function moment(iso) {
  return el("time", { datetime: iso, title: `${iso} (${ageOf(iso)})` }, localTime(iso));
}

/** Returns nodes of a sentence, in which instants are local times. */
export function sentence(text) {
  const nodes = [];
  let from = 0;
  for (const found of String(text ?? "").matchAll(INSTANT)) {
    nodes.push(text.slice(from, found.index), moment(found[0]));
    from = found.index + found[0].length;
  }
  nodes.push(String(text ?? "").slice(from));
  return nodes.filter((node) => node !== "");
}

export function number(value) {
  if (value === null || value === undefined) return "";
  const size = Math.abs(value);
  if (size >= 1e9) return `${(value / 1e9).toFixed(1)} G`;
  if (size >= 1e6) return `${(value / 1e6).toFixed(1)} M`;
  if (size >= 1e4) return `${(value / 1e3).toFixed(1)} k`;
  return size >= 100 || Number.isInteger(value) ? String(Math.round(value)) : value.toFixed(1);
}

export function milliseconds(value) {
  if (value === null || value === undefined) return "";
  if (value < 1000) return `${Math.round(value)} ms`;
  return value < 60000 ? `${(value / 1000).toFixed(1)} s` : span(value / 1000);
}

export function counted(count, word) {
  return `${count} ${word}${count === 1 ? "" : "s"}`;
}
