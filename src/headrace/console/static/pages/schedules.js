// Schedules: when each fires, how often it has, and running, pausing or removing one.

import { get } from "../api.js";
import { fill, h, link, pathOf } from "../dom.js";
import { watch } from "../live.js";
import { announce, ask, change, field, heading, modal, search, tag } from "../parts.js";
import { table, wordsIn } from "../table.js";
import { ago, moment, quoted, whole } from "../words.js";

export async function show({ element, session, reload, onLeave }) {
  const grid = table({
    label: "Schedules",
    sortBy: "name",
    empty: "There are no schedules.",
    columns: [
      { name: "name", title: "Schedule", cell: (row) => h("strong", {}, row.name), sort: (row) => row.name },
      { name: "when", title: "When", cell: (row) => [h("code", {}, row.cron), " ", h("span", { class: "muted" }, row.timezone)] },
      { name: "topic", title: "Sends to", cell: (row) => link(pathOf("topics", row.topic), row.topic), sort: (row) => row.topic },
      { name: "next", title: "Next", cell: (row) => (row.paused ? tag("paused", "warning") : h("span", { title: moment(row.next_due_ms) }, ago(row.next_due_ms))), sort: (row) => row.next_due_ms ?? 0 },
      { name: "last", title: "Last", class: "wide-only", cell: (row) => h("span", { title: moment(row.last_due_ms) }, ago(row.last_due_ms)), sort: (row) => row.last_due_ms ?? 0 },
      { name: "fired", title: "Fired", class: "number", cell: (row) => whole(row.fired), sort: (row) => row.fired },
      { name: "acts", title: "", cell: (row) => acts(row, session, reload) },
    ],
  });
  fill(
    element,
    heading("Schedules", { actions: h("button", { type: "button", class: "primary", onclick: () => add(session, reload) }, "New schedule") }),
    h("div", { class: "bar" }, search("Filter schedules", "", (text) => grid.filter((row) => wordsIn(text)(`${row.name} ${row.topic}`)))),
    grid.element,
  );
  const refresh = async () => grid.update((await get("/schedules?limit=1000")).schedules);
  await refresh();
  onLeave(watch((newest) => newest && refresh().catch(() => {})));
}

function add(session, reload) {
  const name = h("input", { required: true, autofocus: true });
  const cron = h("input", { required: true, placeholder: "0 3 * * *", class: "mono" });
  const timezone = h("input", { value: "UTC" });
  const topic = h("input", { required: true });
  const value = h("input", { placeholder: '{"job": "report"}', class: "mono" });
  const next = h("button", { type: "submit", class: "primary" }, "Show what will happen");
  const fields = [field("Name", name), field("When", cron, "Minute, hour, day, month, weekday."), field("Whose time", timezone), field("To topic", topic), field("Value", value)];
  const { dialog, form } = modal("New schedule", h("div", { class: "fields" }, fields), next);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    dialog.close();
    ask({
      title: "Make schedule",
      what: h("p", {}, `${name.value} writes one record to ${topic.value} at ${cron.value} (${timezone.value}). One of this name that is there is changed.`),
      cli: `headrace schedule add ${quoted(name.value)} --cron ${quoted(cron.value)} --timezone ${quoted(timezone.value)} --topic ${quoted(topic.value)}${value.value ? ` --value ${quoted(value.value)}` : ""}`,
      act: change("PUT", `/schedules/${encodeURIComponent(name.value)}`, { cron: cron.value, topic: topic.value, timezone: timezone.value, ...(value.value ? { value: value.value } : {}) }),
      done: () => (announce(`Schedule ${name.value} is there.`), reload()),
      session,
    });
  });
}

function acts(row, session, reload) {
  const path = `/schedules/${encodeURIComponent(row.name)}`;
  const act = (title, name, what) => () =>
    ask({ title, what: h("p", {}, what), cli: `headrace schedule ${name} ${quoted(row.name)}`, act: name === "run" ? change("POST", `${path}/runs`) : change("PATCH", path, { paused: name === "pause" }), done: () => (announce(`${row.name}: ${title.toLowerCase()} is done.`), reload()), session });
  const remove = () =>
    ask({ title: "Remove", danger: true, what: h("p", {}, `Schedule ${row.name} fires no more.`), cli: `headrace schedule remove ${quoted(row.name)}`, act: change("DELETE", path), done: () => (announce(`${row.name} is removed.`), reload()), session });
  return [
    h("button", { type: "button", class: "quiet", onclick: act("Run now", "run", `${row.name} sends its record to ${row.topic} now, whatever the time is.`) }, "Run"),
    row.paused
      ? h("button", { type: "button", class: "quiet", onclick: act("Resume", "resume", `${row.name} fires again when it is due.`) }, "Resume")
      : h("button", { type: "button", class: "quiet", onclick: act("Pause", "pause", `${row.name} does not fire until it is resumed.`) }, "Pause"),
    h("button", { type: "button", class: "quiet", onclick: remove }, "Remove"),
  ];
}
