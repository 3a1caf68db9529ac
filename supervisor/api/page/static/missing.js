// Says that there is no such job, in place of cards that would stay empty.

import { el } from "./dom.js";
import { JobAddressView } from "./view.js";

/** Returns what is said of a job that is not there; `why` is what the supervisor answers. */
export function noJob(name, why = "", { wasThere = false } = {}) {
  return [
    el("h1", {}, `No job ${name}${wasThere ? " any more" : ""}`),
    why ? el("p", {}, why) : null,
    el("p", { class: "quiet" }, "A job that was cancelled or has finished is kept for some time: the table has it with “also what has ended”."),
    el("p", {}, el("a", { href: "#/" }, "All jobs")),
  ];
}

/** Is shown for an address that can be of no job. */
export class MissingView extends JobAddressView {
  constructor(name) {
    super();
    this.element = el("section", { class: "missing" }, noJob(name));
  }

  stop() {}
}
