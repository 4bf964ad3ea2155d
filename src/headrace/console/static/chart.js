// A line over time: an area, three lines of the grid, and what was when one points at it.

import { get, query } from "./api.js";
import { fill, h, svg } from "./dom.js";
import { problem } from "./parts.js";

const WIDE = 600;
const HIGH = 120;
const SHORTEST = 120;
const CLOCK = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" };

// One chart of one or more series of the history.  `refresh()` asks again.
export function chart({ title, series, show, seconds = 3600 }) {
  const picture = h("div", { class: "picture" });
  const reading = h("output", { class: "reading" });
  let asked = seconds;
  const element = h("figure", { class: "chart" }, h("figcaption", {}, h("span", {}, title), reading), picture);

  async function refresh(wanted) {
    asked = wanted ?? asked;
    try {
      const found = await Promise.all(series.map(({ name }) => get(`/console/api/history${query({ series: name, seconds: asked })}`)));
      draw(found.map((each, index) => ({ ...series[index], points: each.points })));
    } catch (error) {
      fill(picture, problem(error));
    }
  }

  function draw(lines) {
    const values = lines.flatMap((line) => line.points.map(([, value]) => value)).filter((value) => value !== null);
    if (!values.length) {
      fill(picture, h("p", { class: "nothing" }, "Nothing is known yet."));
      fill(reading, "");
      return;
    }
    const top = ceiling(Math.max(...values));
    const end = Date.now() / 1000;
    // A console that is young shows what it has seen, and not an hour of nothing.
    const first = Math.min(...lines.flatMap((line) => line.points.filter(([, value]) => value !== null).slice(0, 1).map(([at]) => at)));
    const span = Math.min(asked, Math.max(SHORTEST, end - first + 20));
    const x = (at) => ((at - (end - span)) / span) * WIDE;
    const y = (value) => HIGH - (value / top) * (HIGH - 8);
    const latest = lines.map((line) => `${line.label ? `${line.label} ` : ""}${show(line.points.at(-1)?.[1] ?? line.points.at(-2)?.[1])}`).join("  ");
    fill(reading, latest);
    const cursor = svg("line", { class: "cursor", y1: 0, y2: HIGH });
    const drawing = svg(
      "svg",
      { viewBox: `0 0 ${WIDE} ${HIGH}`, preserveAspectRatio: "none", role: "img", "aria-label": `${title}: ${latest}, at most ${show(Math.max(...values))}` },
      [0.25, 0.5, 0.75].map((part) => svg("line", { class: "rule", x1: 0, x2: WIDE, y1: y(top * part), y2: y(top * part) })),
      lines.map((line, index) => paths(line.points, x, y, index)),
      cursor,
    );
    drawing.addEventListener("pointermove", (event) => {
      const box = drawing.getBoundingClientRect();
      const at = end - span + ((event.clientX - box.left) / box.width) * span;
      const near = lines.map((line) => line.points.reduce((best, point) => (Math.abs(point[0] - at) < Math.abs(best[0] - at) ? point : best)));
      cursor.classList.add("seen");
      cursor.setAttribute("x1", x(near[0][0]));
      cursor.setAttribute("x2", x(near[0][0]));
      const when = new Date(near[0][0] * 1000).toLocaleTimeString([], CLOCK);
      fill(reading, `${when}  ${near.map(([, value], index) => `${lines[index].label ? `${lines[index].label} ` : ""}${show(value)}`).join("  ")}`);
    });
    drawing.addEventListener("pointerleave", () => {
      cursor.classList.remove("seen");
      fill(reading, latest);
    });
    const begin = new Date((end - span) * 1000);
    fill(
      picture,
      drawing,
      h("div", { class: "scale" }, h("span", {}, show(top)), h("span", {}, "0")),
      h("div", { class: "times" }, h("span", {}, begin.toLocaleTimeString([], CLOCK)), h("span", {}, "now")),
    );
  }

  return { element, refresh };
}

// Gaps stay gaps: a console that did not look knows nothing.
function paths(points, x, y, index) {
  const runs = [];
  let run = [];
  for (const [at, value] of points) {
    if (value !== null) run.push([x(at), y(value)]);
    else if (run.length) {
      runs.push(run);
      run = [];
    }
  }
  if (run.length) runs.push(run);
  return runs.map((each) => {
    const line = each.map(([left, high], at) => `${at ? "L" : "M"}${left.toFixed(1)} ${high.toFixed(1)}`).join("");
    const area = `${line}L${each.at(-1)[0].toFixed(1)} ${HIGH}L${each[0][0].toFixed(1)} ${HIGH}Z`;
    return [index === 0 && svg("path", { class: "area", d: area }), svg("path", { class: `line line-${index}`, d: each.length === 1 ? `${line}h3` : line })];
  });
}

// 1, 2 or 5 with zeros: the next one above.
function ceiling(value) {
  if (value <= 0) return 1;
  const unit = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].find((step) => step * unit >= value) * unit;
}

const SPANS = [
  [900, "15 min"],
  [3600, "1 hour"],
  [21_600, "6 hours"],
  [86_400, "1 day"],
];

// How far back all charts of a page go; kept in the address.
export function spans(chosen, choose) {
  return h(
    "div",
    { class: "spans", role: "group", "aria-label": "Time range" },
    SPANS.map(([value, text]) => h("button", { type: "button", "aria-pressed": String(value === chosen), onclick: () => choose(value) }, text)),
  );
}
