// Pipelines of this machine: how each does, and the flow from topic to topic.

import { get } from "../api.js";
import { fill, h, svg } from "../dom.js";
import { watch } from "../live.js";
import { announce, ask, change, command, facts, heading, nothing, tag } from "../parts.js";
import { ago, rate, seconds, short, whole } from "../words.js";

export async function show({ element, session, reload, onLeave }) {
  const list = h("div", { class: "page" });
  fill(element, heading("Pipelines", { under: "Those that run or ran on the machine of this console." }), list, h("h3", {}, "Start one"), command("headrace pipeline run windowed-statistics -s source.subscribe=orders"));
  const refresh = async () => {
    const { pipelines } = await get("/console/api/pipelines");
    fill(list, pipelines.length ? pipelines.map((each) => card(each, session, reload)) : nothing("No pipeline has run on this machine."));
  };
  await refresh();
  onLeave(watch((newest) => newest && refresh().catch(() => {})));
}

function card(pipeline, session, reload) {
  const running = pipeline.state === "running";
  const stop = () =>
    ask({ title: "Stop pipeline", what: h("p", {}, `${pipeline.name} ends after the batch that it is at; the next run goes on from there.`), cli: `kill -INT ${pipeline.pid}`, act: change("DELETE", `/console/api/pipelines/${encodeURIComponent(pipeline.name)}`), done: () => (announce(`${pipeline.name} is told to stop.`), reload()), session });
  return h(
    "section",
    { class: "card" },
    h("div", { class: "heading" }, h("h2", {}, pipeline.name, " ", tag(pipeline.state, running ? "well" : pipeline.state === "failed" || pipeline.state === "killed" ? "serious" : null)), running && session.rights.includes("alter") && h("button", { type: "button", onclick: stop }, "Stop")),
    h("p", { class: "muted" }, pipeline.description || pipeline.file),
    pipeline.error && h("p", {}, pipeline.error),
    flow(pipeline),
    pipeline.queries.map((query) =>
      h(
        "div",
        {},
        h("h3", {}, query.name),
        facts([
          ["Rows", whole(query.rows)],
          ["Rate", rate(query.rows_per_second)],
          ["Lag", short(query.lag)],
          ["Batch", seconds(query.batch_ms / 1000)],
          query.watermark && ["Watermark", String(query.watermark)],
          query.late_rows !== undefined && ["Late rows", whole(query.late_rows)],
        ]),
      ),
    ),
    h("p", { class: "muted" }, `Seen ${ago(Date.parse(pipeline.updated_at))}.`),
  );
}

// From topics through the pipeline to topics and directories, with the rate of now.
function flow(pipeline) {
  const { sources, sinks } = pipeline;
  if (!sources.length && !sinks.length) return null;
  const now = pipeline.state === "running" ? rate(pipeline.queries.reduce((sum, query) => sum + query.rows_per_second, 0)) : pipeline.state;
  const rows = Math.max(sources.length, sinks.length, 1);
  const high = rows * 36 + 12;
  const box = (x, y, text, kind) => [svg("rect", { x, y: y - 13, width: 200, height: 26, rx: 6, class: kind }), svg("text", { x: x + 10, y: y + 4 }, text.slice(0, 25))];
  const at = (index, total) => (high / (total + 1)) * (index + 1);
  return svg(
    "svg",
    { viewBox: `0 0 700 ${high}`, class: "flow", role: "img", "aria-label": `${sources.join(", ")} to ${sinks.join(", ")}` },
    sources.map((each, index) => [svg("path", { d: `M210 ${at(index, sources.length)} L250 ${high / 2}` }), box(10, at(index, sources.length), each)]),
    box(250, high / 2, `${pipeline.name.slice(0, 16)} ${now}`, "job"),
    sinks.map((each, index) => [svg("path", { d: `M450 ${high / 2} L490 ${at(index, sinks.length)}` }), box(490, at(index, sinks.length), each)]),
  );
}
