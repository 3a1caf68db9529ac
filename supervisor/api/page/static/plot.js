// Remembers what jobs have reported while the page is open, and draws it as small lines.

import { svg, rebuild } from "./dom.js";

const POINTS_MAX = 90;
const series = new Map();

/** Remembers what a job or a query reports: `report` has `at` and figures. One that is known already adds nothing. */
export function remember(key, report) {
  if (!report?.at) return;
  let known = series.get(key);
  if (known === undefined) series.set(key, (known = { at: "", points: [] }));
  if (known.at === report.at) return;
  known.at = report.at;
  known.points.push({ lag: report.lag, batch_ms: report.batch_ms, input_rows_per_s: report.input_rows_per_s });
  if (known.points.length > POINTS_MAX) known.points.shift();
}

/** Forgets what is not in `keys`: jobs that are over. */
export function forgetAllBut(keys, prefix) {
  for (const key of series.keys()) if (key.startsWith(prefix) && !keys.has(key)) series.delete(key);
}

export function valuesOf(key, figure) {
  const points = series.get(key)?.points ?? [];
  return points.map((point) => point[figure]).filter((value) => value !== null && value !== undefined);
}

/** Draws values into an element of SVG, which is `width` × `height` of its own units. It says in words what it shows. `mark` is a
 * value that they are held against, or null. */
export function draw(node, values, { width, height, words, mark = null }) {
  rebuild(node, [values, mark], () => {
    if (values.length < 2) return [];
    const top = Math.max(...values, mark ?? 0, 1e-9), step = width / (values.length - 1);
    const heightOf = (value) => (height - 1.5 - (value / top) * (height - 3)).toFixed(1);
    const points = values.map((value, n) => `${(n * step).toFixed(1)},${heightOf(value)}`).join(" ");
    return [
      svg("title", {}, words(values)),
      svg("polygon", { class: "area", points: `0,${height} ${points} ${width},${height}` }),
      mark === null ? null : svg("line", { class: "mark", x1: 0, x2: width, y1: heightOf(mark), y2: heightOf(mark) }),
      svg("polyline", { class: "line", points }),
    ];
  });
}

export function plot(width, height, kind = "spark") {
  return svg("svg", { class: kind, viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img" });
}
