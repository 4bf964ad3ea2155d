// All topics, with rates, sizes and the lag of the group that is furthest behind.

import { get, objects } from "../api.js";
import { fill, h, link, pathOf } from "../dom.js";
import { watch } from "../live.js";
import { announce, ask, change, field, heading, modal, search, tag } from "../parts.js";
import { table, wordsIn } from "../table.js";
import { count, quoted, rate, short, size, whole } from "../words.js";

const MANY = 2000;

export async function show({ element, query, session, go, onLeave }) {
  const grid = table({
    label: "Topics",
    sortBy: "name",
    empty: "No topic is like that.",
    columns: [
      { name: "name", title: "Topic", cell: (row) => h("a", { class: "row", href: `/console${pathOf("topics", row.name)}` }, row.name), sort: (row) => row.name },
      { name: "partitions", title: "Partitions", class: "number wide-only", cell: (row) => whole(row.partitions), sort: (row) => row.partitions },
      { name: "rate", title: "Written", class: "number", cell: (row) => rate(row.rate), sort: (row) => row.rate },
      { name: "records", title: "Records", class: "number wide-only", cell: (row) => short(row.records), sort: (row) => row.records },
      { name: "bytes", title: "Size", class: "number wide-only", cell: (row) => size(row.bytes), sort: (row) => row.bytes ?? -1 },
      { name: "lag", title: "Worst lag", class: "number", cell: lag, sort: (row) => row.lag ?? -1 },
      { name: "troubled", title: "", class: "wide-only", cell: (row) => (row.troubled ? tag(count(row.troubled, "partition") + " in trouble", "warning") : ""), sort: null },
    ],
  });
  let text = query.get("filter") ?? "";
  let own = query.get("own") === "true";
  const number = h("span", { class: "muted" });
  const apply = () => {
    const test = wordsIn(text);
    grid.filter((row) => (own || !row.internal) && test(row.name));
    fill(number, count(grid.shown.length, "topic"));
    const kept = new URLSearchParams([...(text ? [["filter", text]] : []), ...(own ? [["own", "true"]] : [])]);
    history.replaceState(null, "", `/console/topics${kept.size ? `?${kept}` : ""}`);
  };
  const box = h("input", { type: "checkbox", checked: own, onchange: (event) => ((own = event.target.checked), apply()) });
  const filter = search("Filter topics", text, (value) => ((text = value), apply()));
  const make = h("button", { type: "button", class: "primary", onclick: () => create(session, go) }, "Create topic");
  fill(
    element,
    heading("Topics", { actions: session.rights.includes("create") ? make : null }),
    h("div", { class: "bar" }, filter, h("label", { class: "check" }, box, "the cluster's own"), h("span", { class: "end" }, number)),
    grid.element,
  );
  let asking = false;
  let ticks = 0;
  const refresh = async () => {
    if (asking) return;
    asking = true;
    try {
      grid.update(objects(await get("/console/api/topics")));
      fill(number, count(grid.shown.length, "topic"));
    } finally {
      asking = false;
    }
  };
  await refresh();
  apply();
  // A long list is fetched again more rarely.
  onLeave(watch((newest) => newest && (grid.shown.length < MANY || (ticks += 1) % 6 === 0) && refresh().catch(() => {})));
}

function lag(row) {
  if (row.lag === null) return "–";
  return link(pathOf("groups", row.lag_group), h("span", { title: row.lag_group }, short(row.lag)));
}

function create(session, go) {
  const name = h("input", { name: "name", required: true, maxlength: 249, pattern: "[A-Za-z0-9._\\-]+", autofocus: true });
  const partitions = h("input", { name: "partitions", type: "number", min: 1, max: 100000, value: 1 });
  const copies = h("input", { name: "copies", type: "number", min: 1, max: 100, placeholder: "the cluster's default" });
  const retention = h("input", { name: "retention", placeholder: "604800000" });
  const next = h("button", { type: "submit", class: "primary" }, "Show what will happen");
  const fields = h("div", { class: "fields" }, field("Name", name), field("Partitions", partitions), field("Copies", copies), field("retention.ms", retention, "Milliseconds; empty: the default."));
  const { dialog, form } = modal("Create topic", fields, next);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const settings = retention.value ? { "retention.ms": retention.value } : {};
    const body = { name: name.value, partitions: Number(partitions.value) || 1, settings, ...(copies.value ? { replication: Number(copies.value) } : {}) };
    const options = [`--partitions ${body.partitions}`, body.replication && `--replication-factor ${body.replication}`, retention.value && `--config retention.ms=${retention.value}`];
    dialog.close();
    ask({
      title: "Create topic",
      what: h("p", {}, `Topic ${body.name} comes to be, with ${count(body.partitions, "partition")}${body.replication ? ` in ${count(body.replication, "copy").replace("copys", "copies")}` : ""}.`),
      cli: ["headrace topic create", quoted(body.name), ...options.filter(Boolean)].join(" "),
      act: change("POST", "/topics", body),
      done: () => (announce(`Topic ${body.name} is there.`), go(pathOf("topics", body.name))),
      session,
    });
  });
}
