// Shows the hosts and the table of all jobs. At most PAGE_ROWS rows are elements at a time; filter and order are over all.

import { el, rebuild, reconcile, setAttribute, setText, svg } from "./dom.js";
import { age, counted, milliseconds, nowMs, number, setAge } from "./format.js";
import { draw, forgetAllBut, plot, remember, valuesOf } from "./plot.js";
import { Poll } from "./reading.js";
import { absentText } from "./words.js";

const PAGE_ROWS = 200;
const SPARK = { width: 72, height: 18 };
const EXPLAIN_PERIOD_MS = 5000;
/** The states, those that need somebody first. */
export const STATES = ["quarantined", "failed", "backoff", "pending", "stopping", "starting", "running", "suspended", "cancelled", "finished"];

const COLUMNS = [
  { key: "state", label: "State", value: (job) => STATES.indexOf(job.state) - (job.trouble === "" ? 0 : 0.5) },
  { key: "name", label: "Job", value: (job) => job.name ?? "" },
  { key: "reason", label: "Why", value: (job) => troubleOf(job) },
  { key: "host", label: "Host", value: (job) => job.host ?? "" },
  { key: "restarts", label: "Restarts", value: (job) => job.restarts ?? -1, isNumber: true },
  { key: "batch", label: "Last batch", value: (job) => -Date.parse(job.progress?.at ?? 0), isNumber: true },
  { key: "rate", label: "Rows/s in", value: (job) => presentRate(job.progress) ?? -1, isNumber: true },
  { key: "batch_ms", label: "Batch time", value: (job) => job.progress?.batch_ms ?? -1, isNumber: true },
  { key: "lag", label: "Lag", value: (job) => job.progress?.lag ?? -1, isNumber: true },
  { key: "since", label: "Since", value: (job) => -Date.parse(job.since ?? 0), isNumber: true },
];
// What was chosen stays while a job is shown, and ends with the tab.
const chosen = { text: "", states: new Set(), sort: "state", down: false, page: 0, everything: false, name: null };

export function troubleOf(job) {
  return job.trouble ?? job.reason;
}

/** Returns the host of a job, with the supervisor there if that has another name. */
export function placeOf(job) {
  const { host, supervisor } = job;
  if (!host || !supervisor) return host ?? supervisor ?? "";
  return [host, host.split(".")[0]].includes(supervisor) ? host : `${host} (${supervisor})`;
}

export class FleetView {
  constructor(onRead) {
    this.onRead = onRead;
    this.jobs = null;
    this.leases = new Map();
    this.element = el("div", { class: "fleet" }, this.makeHosts(), this.makeFilter(), this.makeTable());
    this.readJobs();
    this.explain = new Poll("/explain", (document) => this.onExplain(document), onRead,
      { periodMs: EXPLAIN_PERIOD_MS, isSpokenOf: false });
  }

  stop() {
    this.poll.stop();
    this.explain.stop();
  }

  readJobs() {
    this.poll?.stop();
    const path = chosen.everything ? "/jobs?all=true" : "/jobs";
    this.poll = new Poll(path, (jobs) => this.onJobs(jobs), this.onRead);
  }

  onShown() {
    window.scrollTo(0, 0);
  }

  onStatus(status) {
    this.status = status;
    this.showHosts();
  }

  onJobs(jobs) {
    this.jobs = jobs;
    for (const job of jobs) remember(keyOf(job), job.progress);
    forgetAllBut(new Set(jobs.map(keyOf)), "job ");
    this.show();
    if (chosen.name !== null) this.focusOn(chosen.name);
    chosen.name = null;
  }

  onExplain(document) {
    this.leases = new Map(document.jobs.filter((job) => job.lease?.silent).map((job) => [job.name, job]));
    rebuild(this.alarms, [document.alarms, document.store_error, document.distrust], () =>
      [...document.alarms.filter((alarm) => alarm !== document.distrust), ...(document.store_error ? [document.store_error] : [])]
        .map((text) => el("p", { class: "banner" }, text)));
    this.showHosts();
    if (this.jobs) this.show();
  }

  // -- hosts ----------------------------------------------------------------------------------------------------------

  makeHosts() {
    this.alarms = el("div", { role: "status" });
    this.hosts = el("div", { class: "hosts" });
    return el("section", { "aria-label": "Hosts" }, this.alarms, this.hosts);
  }

  showHosts() {
    if (!this.status) return;
    const shared = new Set(this.status.supervisors.map((host) => host.host)).size < this.status.supervisors.length;
    const hosts = [...this.status.supervisors, ...(this.status.absent ?? []).map((absent) => ({ ...absent, absent: true }))];
    reconcile(this.hosts, hosts, (host) => host.id, () => el("article", { class: "host-card" }), (card, host) => {
      if (host.absent) {
        setAttribute(card, "class", "host-card absent");
        return rebuild(card, [host], () => absentCard(host));
      }
      const silent = [...this.leases.values()].filter((job) => job.host === host.id || (!shared && job.host === host.host));
      setAttribute(card, "class", `host-card${host.leader ? " leads" : ""}${host.cordoned ? " cordoned" : ""}`);
      rebuild(card, [host, silent.map((job) => [job.name, job.lease.renewed_at])], () => hostCard(host, silent));
    });
  }

  // -- filter ---------------------------------------------------------------------------------------------------------

  makeFilter() {
    this.input = el("input", {
      id: "filter", type: "search", placeholder: "Filter by name, label or host", "aria-label": "Filter by name, label or host",
      autocomplete: "off", spellcheck: "false",
      on: { input: () => ((chosen.text = this.input.value), (chosen.page = 0), this.show()) },
    });
    this.input.value = chosen.text;
    this.chips = el("div", { class: "chips", role: "group", "aria-label": "States" });
    const all = el("input", { type: "checkbox", on: { change: () => ((chosen.everything = all.checked), this.readJobs()) } });
    all.checked = chosen.everything;
    return el("section", { class: "filter", "aria-label": "Filter" }, this.input, this.chips,
      el("label", { class: "everything" }, all, "also what has ended"));
  }

  showChips() {
    const counts = new Map(STATES.map((state) => [state, 0]));
    for (const job of this.jobs) counts.set(job.state, (counts.get(job.state) ?? 0) + 1);
    const states = [...counts].filter(([state, count]) => count > 0 || chosen.states.has(state));
    const make = ([state]) => el("button", { type: "button", class: "chip", on: { click: () => this.toggle(state) } });
    reconcile(this.chips, states, ([state]) => state, make, (chip, [state, count]) => {
      setAttribute(chip, "aria-pressed", String(chosen.states.has(state)));
      rebuild(chip, [state, count], () => [el("span", { class: `dot ${state}` }), `${state} `, el("b", {}, String(count))]);
    });
  }

  toggle(state) {
    if (!chosen.states.delete(state)) chosen.states.add(state);
    chosen.page = 0;
    this.show();
  }

  // -- table ----------------------------------------------------------------------------------------------------------

  makeTable() {
    this.heads = COLUMNS.map((column) =>
      el("th", { scope: "col", class: `${column.key}${column.isNumber ? " number" : ""}` },
        el("button", { type: "button", on: { click: () => this.sortBy(column.key) } }, column.label)));
    this.body = el("tbody", { on: { click: (event) => this.onClick(event), focusin: (event) => this.rove(event.target) } });
    this.count = el("p", { class: "count", role: "status" }, "reading …");
    this.before = el("button", { type: "button", on: { click: () => this.turn(-1) } }, "Previous 200");
    this.after = el("button", { type: "button", on: { click: () => this.turn(1) } }, "Next 200");
    this.table = el("table", { class: "jobs" }, el("thead", {}, el("tr", {}, this.heads)), this.body);
    return el("section", { "aria-label": "Jobs" }, this.table, el("div", { class: "pages" }, this.count, this.before, this.after));
  }

  sortBy(key) {
    // Of figures the largest are what is asked for first; since and batch are turned already.
    chosen.down = chosen.sort === key ? !chosen.down : ["restarts", "rate", "batch_ms", "lag"].includes(key);
    Object.assign(chosen, { sort: key, page: 0 });
    this.show();
  }

  turn(by) {
    chosen.page += by;
    this.show();
    this.table.scrollIntoView();
  }

  chosenJobs() {
    const words = chosen.text.toLowerCase().split(/\s+/).filter(Boolean);
    const column = COLUMNS.find((each) => each.key === chosen.sort);
    const found = this.jobs.filter((job) =>
      (chosen.states.size === 0 || chosen.states.has(job.state)) && (words.length === 0 || matches(job, words)));
    const keyed = found.map((job) => [column.value(job), job]);
    const sign = chosen.down ? -1 : 1;
    keyed.sort(([a, one], [b, other]) => (a < b ? -sign : a > b ? sign : compare(one.name ?? "", other.name ?? "")));
    return keyed.map(([, job]) => job);
  }

  show() {
    if (!this.jobs) return;
    this.showChips();
    const found = this.chosenJobs();
    const pages = Math.max(1, Math.ceil(found.length / PAGE_ROWS));
    chosen.page = Math.max(0, Math.min(chosen.page, pages - 1));
    const from = chosen.page * PAGE_ROWS;
    const rows = found.slice(from, from + PAGE_ROWS);
    reconcile(this.body, rows, keyOf, makeRow, (row, job) => this.updateRow(row, job));
    if (!this.body.querySelector("[tabindex='0']")) this.body.firstElementChild?.setAttribute("tabindex", "0");
    COLUMNS.forEach((column, n) =>
      setAttribute(this.heads[n], "aria-sort", chosen.sort !== column.key ? null : chosen.down ? "descending" : "ascending"));
    this.before.hidden = chosen.page === 0;
    this.after.hidden = chosen.page === pages - 1;
    setText(this.count, countWords(found.length, this.jobs.length, from, rows.length));
  }

  updateRow(row, job) {
    const cell = row.cells, progress = job.progress;
    row.dataset.name = job.name ?? "";
    setAttribute(row, "class", job.state);
    rebuild(cell[0], job.state, () => [el("span", { class: `dot ${job.state}` }), job.state]);
    rebuild(cell[1], [job.name, job.labels], () => [
      el("a", { href: `#/jobs/${encodeURIComponent(job.name ?? "")}`, tabindex: "-1" }, job.name ?? "?"),
      el("div", {}, ...labelsOf(job.labels))]);
    const silent = this.leases.get(job.name)?.lease;
    rebuild(cell[2], [troubleOf(job), silent?.renewed_at], () => [
      troubleOf(job), silent ? el("span", { class: "silent" }, "lease silent for ", age(silent.renewed_at)) : null]);
    setAttribute(cell[2], "title", troubleOf(job) === job.reason ? null : job.reason);
    setText(cell[3], placeOf(job));
    setText(cell[4], job.restarts ? job.restarts : "");
    setAge(cell[5].firstChild, progress?.at);
    setText(cell[6], number(presentRate(progress)));
    const trigger = progress?.trigger_interval_s ? progress.trigger_interval_s * 1000 : null;
    figure(cell[7], milliseconds(progress?.batch_ms), valuesOf(keyOf(job), "batch_ms"), milliseconds, trigger);
    cell[7].lastChild.classList.toggle("late", trigger !== null && progress.batch_ms > trigger);
    figure(cell[8], number(progress?.lag), valuesOf(keyOf(job), "lag"), number);
    setAge(cell[9].firstChild, job.since);
  }

  // -- keyboard -------------------------------------------------------------------------------------------------------

  onClick(event) {
    const row = event.target.closest("tr");
    if (row && !event.target.closest("a") && !String(getSelection())) open(row.dataset.name);
  }

  rove(target) {
    const row = target.closest("tr");
    if (!row) return;
    for (const other of this.body.querySelectorAll("[tabindex='0']")) if (other !== row) other.tabIndex = -1;
    row.tabIndex = 0;
  }

  focusOn(name) {
    [...this.body.rows].find((row) => row.dataset.name === name)?.focus();
  }

  onKey(event) {
    const isTyping = event.target === this.input;
    if (event.key === "/" && !isTyping) {
      event.preventDefault();
      this.input.focus();
      this.input.select();
    } else if (event.key === "Escape" && isTyping) {
      this.input.value = chosen.text = "";
      this.show();
    } else if (event.key === "Enter" && isTyping) {
      this.body.firstElementChild?.focus();
    } else if (event.key === "Enter" && event.target.matches?.("tbody tr")) {
      open(event.target.dataset.name);
    } else {
      this.onArrow(event, isTyping);
    }
  }

  onArrow(event, isTyping) {
    const by = { ArrowDown: 1, ArrowUp: -1, ...(isTyping ? {} : { j: 1, k: -1 }) }[event.key];
    if (by === undefined || (event.target !== document.body && !isTyping && !event.target.closest("tbody, main"))) return;
    const row = document.activeElement.closest?.("tbody tr");
    const next = row ? (by > 0 ? row.nextElementSibling : row.previousElementSibling) : this.body.querySelector("[tabindex='0']");
    if (!next) return;
    event.preventDefault();
    next.focus();
  }
}

function open(name) {
  chosen.name = name;
  location.hash = `#/jobs/${encodeURIComponent(name)}`;
}

function keyOf(job) {
  return `job ${job.uid ?? job.name}`;
}

function compare(one, other) {
  return one < other ? -1 : one > other ? 1 : 0;
}

function matches(job, words) {
  const labels = Object.entries(job.labels).map(([key, value]) => `${key}=${value}`);
  const text = [job.name, job.host, job.supervisor, ...labels].join(" ").toLowerCase();
  return words.every((word) => text.includes(word));
}

function countWords(found, all, from, shown) {
  if (all === 0) return "No jobs.";
  const which = found === all ? counted(all, "job") : `${found} of ${counted(all, "job")}`;
  return shown < found ? `${which}, ${from + 1} to ${from + shown} are shown` : which;
}

function makeRow() {
  const cells = COLUMNS.map((column) => el("td", { class: `${column.key}${column.isNumber ? " number" : ""}`, "data-label": column.label }));
  for (const column of [5, 9]) cells[column].append(age(null));
  return el("tr", { tabindex: "-1" }, cells);
}

function figure(cell, text, values, write, mark = null) {
  if (!cell.firstChild) cell.append(plot(SPARK.width, SPARK.height), el("span"));
  setText(cell.lastChild, text);
  const against = mark === null ? "" : `, trigger each ${write(mark)}`;
  draw(cell.firstChild, values, { ...SPARK, mark, words: (all) => `${write(Math.min(...all))} to ${write(Math.max(...all))}${against}` });
}

export function labelsOf(labels) {
  return Object.entries(labels).map(([key, value]) => el("span", { class: "label" }, value ? `${key}=${value}` : key));
}

/** Returns what arrives now by the newest batch, or null if that was long ago: a query that has caught up commits none. */
function presentRate(progress) {
  if (!progress) return null;
  const untilMs = Math.max(60, 3 * (progress.trigger_interval_s ?? 0)) * 1000;
  return progress.at && nowMs() - Date.parse(progress.at) > untilMs ? null : progress.input_rows_per_s;
}

function absentCard(host) {
  return [
    el("h2", {}, el("span", {}, host.id), el("span", { class: "badge" }, "not connected")),
    el("p", { class: "silent" }, `${counted(host.drivers, "driver")} may run there`),
    el("p", { class: "quiet" }, absentText(host.id, host.host)),
  ];
}

function hostCard(host, silent) {
  const share = host.capacity.drivers ? Math.min(1, host.drivers / host.capacity.drivers) : 0;
  const oldest = silent.map((job) => job.lease.renewed_at).sort()[0];
  const lease = silent.length === 0
    ? el("span", { class: "quiet" }, host.drivers ? "leases are renewed" : "no leases")
    : el("span", { class: "silent" }, `${counted(silent.length, "lease")} silent, the oldest for `, age(oldest));
  const cordon = host.cordoned
    ? el("p", { class: "silent" }, host.cordon ? `cordoned by ${host.cordon.by}${host.cordon.reason ? ` (${host.cordon.reason})` : ""}` : "cordoned",
        host.cordon?.draining ? "; its jobs are moved away" : "")
    : null;
  return [
    el("h2", {}, el("span", {}, host.id), host.leader ? el("span", { class: "badge" }, "leader") : null,
      host.host !== host.id ? el("span", { class: "quiet" }, host.host) : null),
    el("p", {}, `${host.drivers} of ${counted(host.capacity.drivers, "driver")}${host.prepared ? `, ${host.prepared} prepared` : ""}`),
    svg("svg", { class: "load", viewBox: "0 0 100 4", preserveAspectRatio: "none", "aria-hidden": "true" },
      svg("rect", { class: "trough", width: 100, height: 4 }), svg("rect", { class: "used", width: (share * 100).toFixed(1), height: 4 })),
    el("p", {}, lease), cordon,
    el("p", { class: "quiet" }, "up for ", age(host.since), `, ${host.software} `, ...labelsOf(host.labels)),
  ];
}
