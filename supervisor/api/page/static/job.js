// Shows one job: why it is as it is, what helps, its figures, its queries, and what happened to it.

import { copyable } from "./command.js";
import { el, rebuild, reconcile, setText } from "./dom.js";
import { labelsOf, placeOf } from "./fleet.js";
import { age, counted, localTime, milliseconds, moment, number, sentence } from "./format.js";
import { LogTail } from "./log.js";
import { noJob } from "./missing.js";
import { draw, plot, remember, valuesOf } from "./plot.js";
import { Poll } from "./reading.js";
import { JobAddressView } from "./view.js";
import { diagnosticsPlace, linesOf } from "./words.js";

const PLOT = { width: 300, height: 60 };
const FIGURES = [
  { key: "batch_ms", label: "Batch time", write: milliseconds, mark: (job) => triggerMs(job.progress) },
  { key: "lag", label: "Lag", write: number },
  { key: "input_rows_per_s", label: "Rows/s in", write: number },
];
const PLANNED = { finished: "good", stopped: "calm", assigned: "start", claimed: "start", submitted: "start", resumed: "start" };
const KINDS = [
  [/savepoint/, "save"],
  [/update failed|rolled back|quarantin/, "bad"],
  [/update|hand|revision|promot|fork|moved?\b|registered|restart/, "change"],
  [/suspend|cancel|drain|unassign|memory|label|delet/, "calm"],
];
const HISTORY_PERIOD_MS = 5000;

export class JobView extends JobAddressView {
  constructor(name, onRead) {
    super();
    this.name = name;
    this.parts = Object.fromEntries(
      ["head", "lines", "remedies", "facts", "plots", "queries", "history", "spec"].map((part) => [part, el("div", { class: part })]));
    this.parts.lines = el("dl", { class: "lines" });
    this.parts.facts = el("dl", { class: "facts" });
    this.trouble = el("p", { class: "banner", hidden: true });
    this.missing = el("section", { class: "missing", role: "status", hidden: true });
    this.absent = new Map();
    this.wasThere = false;
    this.log = new LogTail(name);
    this.element = this.make();
    const noted = (error, poll) => (this.noteMissing(error, poll.document), onRead(error?.status === 404 ? null : error, poll));
    const path = (this.path = `/jobs/${encodeURIComponent(name)}`);
    this.polls = [
      new Poll(path, (job) => this.onJob(job), noted),
      new Poll(`${path}/explain`, (explained) => this.onExplained(explained), noted, { isSpokenOf: false }),
      new Poll(`${path}/history?all=true`, (history) => this.onHistory(history), noted, { periodMs: HISTORY_PERIOD_MS }),
    ];
  }

  make() {
    const { head, lines, remedies, facts, plots, queries, history, spec } = this.parts;
    const card = (title, ...nodes) => el("section", { class: "card", "aria-label": title }, el("h2", {}, title), ...nodes);
    this.moreQueries = el("p", { class: "quiet" });
    this.queriesCard = card("Queries", queries, this.moreQueries);
    this.shown = el("div", {}, head, this.trouble,
      el("div", { class: "columns" },
        el("div", {}, card("Why, and what helps", lines, remedies), card("What happened", history)),
        el("div", {}, card("Figures", plots), this.queriesCard, card("Facts", facts), spec)),
      this.log.element);
    return el("div", { class: "job" }, el("p", {}, el("a", { class: "back", href: "#/" }, "‹ all jobs")), this.missing, this.shown);
  }

  stop() {
    for (const poll of this.polls) poll.stop();
    this.log.stop();
  }

  /** Notes what a reading of `path` has found. Without the job itself nothing else of it is shown. */
  noteMissing(error, path) {
    if (error === null) this.absent.delete(path);
    else if (error.status === 404) this.absent.set(path, error.message);
    const why = this.absent.get(this.path), [other] = this.absent.values();
    this.missing.hidden = why === undefined;
    this.shown.hidden = why !== undefined;
    if (why !== undefined) rebuild(this.missing, [why, this.wasThere], () => noJob(this.name, why, this));
    this.trouble.hidden = other === undefined;
    setText(this.trouble, other);
  }

  // -- the job --------------------------------------------------------------------------------------------------------

  onJob(job) {
    this.wasThere = true;
    remember(`job ${job.uid ?? job.name}`, job.progress);
    rebuild(this.parts.head, [job.name, job.state, job.since, job.labels, job.desired], () => [
      el("h1", {}, job.name, " ", el("span", { class: `pill ${job.state}` }, el("span", { class: `dot ${job.state}` }), job.state),
        job.since ? el("span", { class: "quiet" }, " for ", age(job.since)) : null),
      el("p", {}, job.desired && job.desired !== "running" ? `wanted: ${job.desired} ` : null, ...labelsOf(job.labels)),
    ]);
    this.showPlots(job);
    this.showQueries(job);
    const facts = factsOf(job).filter(([, value]) => value.length > 0);
    reconcile(this.parts.facts, facts, ([label]) => label, ([label]) => el("div", {}, el("dt", {}, label), el("dd")),
      (line, [, value]) => rebuild(line.lastChild, value, () => value.map(shownPiece)));
    rebuild(this.parts.spec, [job.spec, job.spec_error], () => [
      el("details", {}, el("summary", {}, `Spec${job.revision > 1 ? `, revision ${job.revision}` : ""}`),
        el("pre", {}, job.spec_error ?? JSON.stringify(job.spec, null, 2)))]);
  }

  showPlots(job) {
    const key = `job ${job.uid ?? job.name}`;
    const known = FIGURES.filter((each) => valuesOf(key, each.key).length > 0);
    if (known.length === 0) {
      rebuild(this.parts.plots, "none", () => el("p", { class: "quiet" }, "It has reported no batch."));
      return;
    }
    rebuild(this.parts.plots, known.map((each) => each.key), () => known.map((each) =>
      el("figure", { "data-figure": each.key }, el("figcaption", {}, el("span", {}, each.label), el("b", {})),
        plot(PLOT.width, PLOT.height, "plot"), el("p", { class: "quiet" }))));
    for (const each of known) {
      const box = this.parts.plots.querySelector(`[data-figure='${each.key}']`), values = valuesOf(key, each.key);
      const range = `${each.write(Math.min(...values))} to ${each.write(Math.max(...values))}`;
      const mark = each.mark?.(job) ?? null, against = mark === null ? "" : `, trigger each ${each.write(mark)}`;
      setText(box.querySelector("b"), each.write(values.at(-1)));
      box.querySelector("b").classList.toggle("late", mark !== null && values.at(-1) > mark);
      setText(box.lastChild, `${range} in ${counted(values.length, "report")} since this page is open${against}`);
      draw(box.querySelector("svg"), values, { ...PLOT, mark, words: () => `${each.label}: ${range}${against}` });
    }
  }

  showQueries(job) {
    this.queriesCard.hidden = job.queries.length === 0;
    setText(this.moreQueries, job.more_queries ? `and ${job.more_queries} more` : "");
    const make = () => el("article", { class: "query" });
    reconcile(this.parts.queries, job.queries, (query) => query.id ?? query.query, make, (box, query) => {
      const { age_s: _, ...facts } = query;
      rebuild(box, facts, () => queryOf(query));
    });
  }

  // -- why, and what helps --------------------------------------------------------------------------------------------

  onExplained(explained) {
    const lines = linesOf(explained);
    reconcile(this.parts.lines, lines, (line) => line.label, (line) => el("div", {}, el("dt", {}, line.label), el("dd")),
      (node, line) => rebuild(node.lastChild, line.facts, () => line.nodes));
    const remedies = explained.distrust
      ? [...explained.remedies, { command: "spark-supervisor accept-registry --help", note: "the registry is not trusted" }]
      : explained.remedies;
    rebuild(this.parts.remedies, remedies, () => (remedies.length ? [el("h3", {}, "You can"), ...remedies.map(remedyOf)] : []));
  }

  onHistory(history) {
    const [newest, ...older] = [...history.uids].reverse();
    rebuild(this.parts.history, history, () => [
      ...(newest ? [timeLine(newest.history)] : []),
      ...older.map((story) => el("details", {},
        el("summary", {}, `Submission ${story.uid ?? "?"}: ${story.state}`),
        el("p", {}, ...sentence(story.headline)), timeLine(story.history))),
    ]);
  }
}

/** Returns the interval of a trigger by time in milliseconds, or null. */
function triggerMs(progress) {
  const interval = progress?.trigger_interval_s;
  return interval === null || interval === undefined ? null : interval * 1000;
}

// -- pieces -----------------------------------------------------------------------------------------------------------

function remedyOf(remedy) {
  if (remedy.command === null) return el("p", { class: "remedy" }, ...sentence(remedy.note));
  return el("div", { class: "remedy" }, copyable(remedy.command), el("p", { class: "quiet" }, ...sentence(remedy.note)));
}

function kindOf(event) {
  return PLANNED[event] ?? KINDS.find(([words]) => words.test(event))?.[1] ?? (/^[a-z]+(_[a-z]+)*$/.test(event) ? "bad" : "calm");
}

function timeLine(entries) {
  return el("ol", { class: "timeline" }, [...entries].reverse().map((entry) => {
    const times = (entry.count ?? 1) > 1 ? `${entry.count} times, until ${localTime(entry.last_at)}: ` : "";
    const attempt = (entry.count ?? 1) > 1 ? `attempts ${entry.attempt} to ${entry.last_attempt}` : entry.attempt ? `attempt ${entry.attempt}` : "";
    return el("li", { class: kindOf(entry.event) },
      el("div", {}, el("b", {}, entry.event.replaceAll("_", " ")), " ", el("span", { class: "quiet" }, attempt), moment(entry.at)),
      el("p", {}, times, ...sentence(entry.detail), entry.by ? el("span", { class: "quiet" }, ` by ${entry.by}`) : null,
        entry.omitted ? el("span", { class: "quiet" }, ` (${entry.omitted} entries after it are not kept)`) : null));
  }));
}

/** Returns what a query is called; one without a name reports its id for it. */
function queryName(name, id = null) {
  if (name && name !== id && !/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(name)) return name;
  return `unnamed (id ${(id ?? name ?? "?").slice(0, 8)})`;
}

function queryOf(query) {
  const figures = [
    ["batch", query.batch_id], ["rows/s in", query.input_rows_per_s === null ? null : number(query.input_rows_per_s)],
    ["rows/s done", query.processed_rows_per_s === null ? null : number(query.processed_rows_per_s)],
    ["took", milliseconds(query.batch_ms) || null], ["trigger each", milliseconds(triggerMs(query)) || null], ["lag", query.lag === null ? null : number(query.lag)],
    ["state rows", query.state_rows === null ? null : number(query.state_rows)],
  ].filter(([, value]) => value !== null && value !== undefined);
  return [
    el("h3", {}, el("span", { class: `dot query-${query.state}` }), queryName(query.query, query.id), el("span", { class: "quiet" }, query.state),
      query.at ? age(query.at, " ago") : null),
    el("p", { class: "figures" }, figures.map(([label, value]) => el("span", {}, `${label} `, el("b", {}, String(value))))),
    query.error ? el("p", { class: "error" }, query.error) : null,
    query.elsewhere ? el("p", { class: "quiet" }, `its checkpoint is at ${query.elsewhere}`) : null,
  ];
}

/** Returns a link to an address of another page, or its text if it is none that a link may have. */
function webLink(address) {
  if (!/^https?:\/\/[\w.:[\]~/-]+$/i.test(address)) return el("span", {}, address);
  return el("a", { href: address, target: "_blank", rel: "noopener noreferrer" }, address);
}

// A fact is a list of pieces: a text, {age} for an instant that is told by its age, {at} for one that is told by its time, {link}.
function shownPiece(piece) {
  if (typeof piece === "string") return el("span", {}, ...sentence(piece));
  if (piece.link) return webLink(piece.link);
  return piece.age ? age(piece.age) : moment(piece.at);
}

function factsOf(job) {
  const text = (value) => (value === null || value === undefined || value === "" ? [] : [String(value)]);
  const ended = job.last_exit, progress = job.progress, wait = job.cluster_wait, update = job.update, plan = job.savepoints;
  const counts = [["restart", job.restarts], ["failure", job.failures]].filter(([, n]) => n).map(([word, n]) => `, ${counted(n, word)}`);
  return [
    ["attempt", job.attempt === null ? [] : [`${job.attempt}${counts.join("")}`]],
    ["host", job.host || job.supervisor
      ? [placeOf(job) + (job.driver_pid ? `, driver pid ${job.driver_pid}` : ""), ...(job.started_at ? [", started ", { age: job.started_at }, " ago"] : [])]
      : []],
    ["Spark UI", job.spark_ui ? [{ link: job.spark_ui }] : []],
    ["next attempt", job.next_attempt_at ? [{ at: job.next_attempt_at }] : []],
    ["last batch", progress?.batch_id !== null && progress?.batch_id !== undefined
      ? [`${progress.batch_id}${progress.query ? ` of ${queryName(progress.query)}` : ""}, `, { age: progress.at }, " ago"] : []],
    ["last exit", ended ? [`${ended.cause}, attempt ${ended.attempt}, `, { age: ended.at }, ` ago: ${ended.why}`] : []],
    ["diagnostics", text(diagnosticsPlace(job.diagnostics))],
    ["cluster", wait ? [`waits for executors of ${wait.cluster ?? "its cluster"} for `, { age: wait.since }, wait.says ? `: ${wait.says}` : ""] : []],
    ["update", update ? [`revision ${update.stable} to ${update.target}: ${update.state.replaceAll("_", " ")}${update.why ? `: ${update.why}` : ""} (`, { age: update.at }, ` ago by ${update.by})`] : []],
    ["fork", job.fork ? [`of ${job.fork.of}, from its savepoint ${job.fork.savepoint}${job.fork.copying ? ", which is being copied" : ""}`] : []],
    ["promotion", job.promotion ? [`${job.promotion.state === "done" ? "it has" : "it is to take"} the place of ${job.promotion.over} (`, { age: job.promotion.at }, ` ago by ${job.promotion.by})`] : []],
    ["prepared", job.prepared.map((driver) => preparedText(driver)).flatMap((said, n) => (n ? ["; ", said] : [said]))],
    ["savepoints", plan ? [`every ${plan.every}, the newest ${plan.keep} are kept; newest ${plan.newest ?? "none yet"}; `,
      ...(plan.problem ? [plan.problem] : ["next due ", plan.next_due_at ? { at: plan.next_due_at } : "now"])] : []],
    ["start", job.start ? [Object.entries(job.start).map(([phase, s]) => `${phase.replace(/_s$/, "").replaceAll("_", " ")} ${s.toFixed(1)} s`).join(", ")] : []],
    ["checkpoint", text(job.checkpoint)], ["fence", text(job.checkpoint_fence)], ["class archive", text(job.class_archive)],
    ["user", text(job.user)], ["limits", text(job.limits)], ["driver memory", text(job.driver_memory)], ["stop mode", text(job.stop_mode)],
    ["starts cold", text(job.starts_cold)], ["prepare", text(job.prepare_lowered)], ["env", text(job.env_ignored)],
    ["uid", text(job.uid)], ["revision", text(job.revision)],
  ];
}

function preparedText(driver) {
  if (driver.why) return `none on ${driver.host}: ${driver.why}`;
  return driver.ready ? `ready on ${driver.host} (${driver.level})` : `is being prepared on ${driver.host}`;
}
