// Schedules: when each fires, how often it has, and running, pausing or removing one.

import { get } from "../api.js";
import { fill, h, link, pathOf } from "../dom.js";
import { watch } from "../live.js";
import { announce, ask, change, command, heading, search, tag } from "../parts.js";
import { table, wordsIn } from "../table.js";
import { ago, moment, quoted, whole } from "../words.js";

export async function show({ element, session, reload, onLeave }) {
  const grid = table({
    label: "Schedules",
    sortBy: "name",
    empty: "There are no schedules.",
    columns: [
      { name: "name", title: "Schedule", cell: (row) => h("strong", {}, row.name), sort: (row) => row.name },
      { name: "when", title: "When", cell: (row) => h("code", {}, when(row.parts)) },
      { name: "topic", title: "Sends to", cell: (row) => (row.parts.topic ? link(pathOf("topics", row.parts.topic), row.parts.topic) : "–"), sort: (row) => row.parts.topic },
      { name: "next", title: "Next", cell: (row) => (row.paused ? tag("paused", "warning") : h("span", { title: moment(row.next) }, ago(row.next))), sort: (row) => row.next ?? 0 },
      { name: "last", title: "Last", class: "wide-only", cell: (row) => h("span", { title: moment(row.last) }, ago(row.last)), sort: (row) => row.last ?? 0 },
      { name: "fired", title: "Fired", class: "number", cell: (row) => whole(row.fired), sort: (row) => row.fired },
      { name: "acts", title: "", cell: (row) => acts(row, session, reload) },
    ],
  });
  fill(
    element,
    heading("Schedules"),
    h("div", { class: "bar" }, search("Filter schedules", "", (text) => grid.filter((row) => wordsIn(text)(`${row.name} ${row.parts.topic}`)))),
    grid.element,
    h("h3", {}, "A new one"),
    command("headrace schedule add nightly --cron '0 3 * * *' --topic jobs --value '{\"job\": \"report\"}'"),
  );
  const refresh = async () => grid.update((await get("/console/api/schedules")).schedules);
  await refresh();
  onLeave(watch((newest) => newest && refresh().catch(() => {})));
}

const when = (parts) => parts.cron ?? (parts.every ? `every ${parts.every}` : (parts.at ?? "–"));

function acts(row, session, reload) {
  const path = `/console/api/schedules/${encodeURIComponent(row.name)}`;
  const act = (title, name, what) => () =>
    ask({ title, what: h("p", {}, what), cli: `headrace schedule ${name} ${quoted(row.name)}`, act: change("POST", `${path}/acts`, { act: name }), done: () => (announce(`${row.name}: ${title.toLowerCase()} is done.`), reload()), session });
  const remove = () =>
    ask({ title: "Remove", danger: true, what: h("p", {}, `Schedule ${row.name} fires no more.`), cli: `headrace schedule remove ${quoted(row.name)}`, act: change("DELETE", path), done: () => (announce(`${row.name} is removed.`), reload()), session });
  return [
    h("button", { type: "button", class: "quiet", onclick: act("Run now", "run", `${row.name} sends its record to ${row.parts.topic} now, whatever the time is.`) }, "Run"),
    row.paused
      ? h("button", { type: "button", class: "quiet", onclick: act("Resume", "resume", `${row.name} fires again when it is due.`) }, "Resume")
      : h("button", { type: "button", class: "quiet", onclick: act("Pause", "pause", `${row.name} does not fire until it is resumed.`) }, "Pause"),
    h("button", { type: "button", class: "quiet", onclick: remove }, "Remove"),
  ];
}
