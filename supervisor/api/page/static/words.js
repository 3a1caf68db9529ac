// Puts what the leader plans for a job into sentences, from the document of explain. It only chooses words.

import { el } from "./dom.js";
import { age, counted, moment, sentence, span } from "./format.js";

const SILENT_AGE = " ago";

/** Returns lines of label, key and nodes: what is so, why, and what comes next. */
export function linesOf(explained) {
  const unheard = unheardOf(explained);
  const lines = [{ label: "", facts: [explained.reason, unheard], nodes: [
    ...sentence(`${explained.name} ${stateOf(explained)}`), ...(unheard ? [", but nothing was heard of it for ", age(unheard)] : [])] }];
  const add = (label, facts, ...nodes) => facts && lines.push({ label, facts, nodes });
  const ended = explained.last_exit;
  if (ended && explained.failures && !explained.reason.includes(ended.why.replace(/…$/, "")))
    add("last failure", ended, ...sentence(ended.why), ` (${ended.cause}, attempt ${ended.attempt}, `, age(ended.at, SILENT_AGE), ")");
  addDiagnostics(explained, add);
  add("held", explained.held_by, ...sentence(explained.held_by));
  if (explained.waits_for) add("waits for", [explained.waits_for, explained.until], ...sentence(explained.waits_for), ...until(explained));
  if (explained.action) add("next", [explained.action, explained.held_by, explained.why], ...nextOf(explained));
  else if (explained.then) add("then", explained.then, `the leader is to ${explained.then}`);
  else if (explained.fine && !explained.waits_for) add("next", "fine", "nothing to do: it runs as wanted");
  add("lease", explained.lease, ...leaseOf(explained.lease));
  add("standby", explained.standby, ...sentence(explained.standby));
  add("update", explained.failed_update, ...sentence(explained.failed_update));
  if (explained.sinks?.length) add("sinks", explained.sinks, ...sentence(explained.sinks.join("; ")));
  if (explained.absent_supervisor)
    add("supervisor", explained.absent_supervisor, ...sentence(absentText(explained.absent_supervisor, explained.host)));
  add("move", explained.move, ...sentence(explained.move));
  if (explained.alarm) add("alarm", explained.alarm, ...sentence(explained.alarm));
  for (const host of explained.hosts)
    add(`on ${host.id}`, host, `${host.drivers} of ${host.drivers_max} drivers, ${host.starting} of ${host.starting_max} starting` +
      (host.lacking ? `; ${host.lacking}` : ""));
  return lines;
}

/** Adds where the diagnostics of the latest attempt are, while attempts fail. */
function addDiagnostics(explained, add) {
  const known = explained.failures ? explained.diagnostics : null;
  if (!known) return;
  const place = diagnosticsPlace(known), command = `spark-supervisor debug bundle ${explained.name}`;
  add("diagnostics", place, `${place}; `, el("code", {}, command), " packs it there");
  add("memory", known.memory, `attempt ${known.attempt}, ${known.memory}`);
}

/** Returns where the diagnostics of an attempt are, or an empty text. */
export function diagnosticsPlace(known) {
  return known?.path ? `attempt ${known.attempt}, ${known.host}:${known.path}` : "";
}

/** Returns what it means that the supervisor of a host is not connected, and what helps. */
export function absentText(id, host) {
  return `${id} on ${host} is not connected: drivers there run on under their shims, and what ends there is started on ` +
    "another host that has room; start spark-supervisor there again";
}

/** Returns since when nothing was heard of a job that is to run, or null. */
function unheardOf({ state, lease }) {
  return ["running", "starting"].includes(state) && lease?.silent && lease.lease_s !== null ? lease.renewed_at : null;
}

function stateOf(explained) {
  const { state, reason } = explained;
  if (state === "quarantined") return `is quarantined, and stays stopped until you act: ${reason}`;
  if (state === "failed") return `has failed for good: ${reason}`;
  if (state === "backoff") return `is in back-off after ${counted(explained.failures, "failure")}: ${reason}`;
  return reason.startsWith(state) ? `is ${reason}` : `is ${state}: ${reason}`;
}

function until(explained) {
  return explained.until ? [", until ", moment(explained.until), " (", age(explained.until), ")"] : [];
}

function nextOf(explained) {
  const when = explained.held_by ? "after that the leader is to " : "the leader is to ";
  return [when, explained.action, ...(explained.why ? [": ", ...sentence(explained.why)] : [])];
}

function leaseOf(lease) {
  if (!lease) return [];
  const length = lease.lease_s === null ? "its length can't be read" : `of ${span(lease.lease_s)}`;
  if (!lease.silent) return [`${length}, renewed `, age(lease.renewed_at, " ago")];
  return [`${length}, silent for `, age(lease.renewed_at), `; the attempt counts as dead after ${span(lease.full_wait_s)}`];
}
