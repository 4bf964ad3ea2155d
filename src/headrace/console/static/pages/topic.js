// One topic: its messages, its partitions on a map of brokers, its readers and its settings.

import { get } from "../api.js";
import { chart } from "../chart.js";
import { fill, h, link, pathOf } from "../dom.js";
import { watch } from "../live.js";
import { announce, ask, change, choice, facts, field, heading, modal, search, tabs, tag } from "../parts.js";
import { table, wordsIn } from "../table.js";
import { count, quoted, rate, short, size, whole } from "../words.js";

const SECTIONS = [
  ["", "Messages"],
  ["partitions", "Partitions"],
  ["groups", "Groups"],
  ["settings", "Settings"],
];

export async function show(context) {
  const { element, rest, session, go, onLeave } = context;
  const [name, section = ""] = rest;
  const topic = await get(`/console/api/topics/${encodeURIComponent(name)}`);
  const may = (right) => topic.rights.includes(right);
  const actions = [
    may("write") && h("button", { type: "button", class: "primary", onclick: () => produce(topic, context) }, "Produce a message"),
    may("delete") && h("button", { type: "button", onclick: () => remove(topic, session, go) }, "Delete topic"),
  ];
  const body = h("div", { class: "page" });
  fill(element, heading(name, { actions }), summary(topic), tabs(pathOf("topics", name), SECTIONS, section), body);
  if (section === "") {
    const { messages } = await import("./messages.js");
    await messages({ ...context, element: body, topic });
  } else if (section === "partitions") partitions(body, topic, context);
  else if (section === "groups") groups(body, topic, onLeave);
  else if (section === "settings") await settings(body, topic, context);
}

function summary(topic) {
  const records = topic.partitions.reduce((sum, each) => sum + Math.max(0, (each.next ?? 0) - (each.first ?? 0)), 0);
  const bytes = topic.partitions.some((each) => each.bytes !== null) ? topic.partitions.reduce((sum, each) => sum + (each.bytes ?? 0), 0) : null;
  const behind = topic.partitions.filter((each) => each.in_sync.length < each.replicas.length).length;
  const worst = topic.groups[0];
  return facts([
    ["Partitions", whole(topic.partitions.length)],
    ["Records", short(records)],
    ["Size", size(bytes)],
    ["Written", rate(topic.rate)],
    worst && ["Worst lag", link(pathOf("groups", worst.group), `${short(worst.lag)} · ${worst.group}`)],
    behind > 0 && ["Not in sync", tag(count(behind, "partition"), "warning")],
  ]);
}

function partitions(body, topic, { session, reload }) {
  const brokers = [...new Set([...topic.brokers, ...topic.partitions.flatMap((each) => each.replicas)])].sort((a, b) => a - b);
  const grid = table({
    label: "Partitions",
    sortBy: "partition",
    columns: [
      { name: "partition", title: "Partition", class: "number", cell: (row) => row.partition, sort: (row) => row.partition },
      { name: "leader", title: "Leader", class: "number", cell: (row) => row.leader ?? tag("none", "serious"), sort: (row) => row.leader ?? -1 },
      { name: "replicas", title: "Copies by broker", cell: (row) => map(row, brokers) },
      { name: "first", title: "First", class: "number", cell: (row) => whole(row.first), sort: (row) => row.first },
      { name: "next", title: "Next", class: "number", cell: (row) => whole(row.next), sort: (row) => row.next },
      { name: "bytes", title: "Size", class: "number wide-only", cell: (row) => size(row.bytes), sort: (row) => row.bytes ?? -1 },
      { name: "see", title: "", cell: (row) => link(`${pathOf("topics", topic.name)}?partition=${row.partition}`, "messages") },
    ],
  });
  grid.update(topic.partitions);
  const may = (right) => topic.rights.includes(right);
  const more = may("alter") && h("button", { type: "button", onclick: () => grow(topic, session, reload) }, "Add partitions");
  const purge = may("delete") && h("button", { type: "button", onclick: () => empty(topic, session, reload) }, "Delete old records");
  const legend = h("p", { class: "muted" }, h("span", { class: "replica leads" }, "1"), " leads ", h("span", { class: "replica in-sync" }, "2"), " in sync ", h("span", { class: "replica out" }, "3"), " behind or gone");
  fill(body, h("div", { class: "bar" }, legend, h("span", { class: "end bar" }, more, purge)), grid.element);
}

function map(row, brokers) {
  const state = (broker) => (broker === row.leader ? "leads" : row.in_sync.includes(broker) ? "in-sync" : "out");
  const said = { leads: "leads", "in-sync": "in sync", out: "not in sync" };
  return h(
    "span",
    { class: "replicas" },
    brokers.filter((broker) => row.replicas.includes(broker)).map((broker) => h("span", { class: `replica ${state(broker)}`, title: `Broker ${broker} ${said[state(broker)]}` }, broker)),
  );
}

function groups(body, topic, onLeave) {
  const grid = table({
    label: "Groups that read this topic",
    sortBy: "lag",
    descending: true,
    empty: "No group has committed an offset here.",
    columns: [
      { name: "group", title: "Group", cell: (row) => h("a", { class: "row", href: `/console${pathOf("groups", row.group)}` }, row.group), sort: (row) => row.group },
      { name: "kind", title: "Kind", cell: (row) => tag(row.kind), sort: (row) => row.kind },
      { name: "state", title: "State", cell: (row) => row.state, sort: (row) => row.state },
      { name: "lag", title: "Lag here", class: "number", cell: (row) => whole(row.lag), sort: (row) => row.lag },
    ],
  });
  grid.update(topic.groups);
  const lag = chart({ title: "Lag of the group that is furthest behind", series: [{ name: `topic/${topic.name}/lag` }], show: short });
  const written = chart({ title: "Records written", series: [{ name: `topic/${topic.name}/records_in` }], show: rate });
  fill(body, h("div", { class: "charts" }, lag.element, written.element), grid.element);
  onLeave(watch((newest) => newest && (lag.refresh(), written.refresh())));
}

async function settings(body, topic, { session, reload }) {
  const { settings: found } = await get(`/topics/${encodeURIComponent(topic.name)}/settings`);
  const rows = Object.entries(found).map(([name, setting]) => ({ name, ...setting }));
  const who = { topic: "this topic", broker: "the broker", cluster: "the cluster", default: "default" };
  const may = topic.rights.includes("alter_configs");
  const grid = table({
    label: "Settings",
    sortBy: "name",
    columns: [
      { name: "name", title: "Setting", cell: (row) => h("code", {}, row.name), sort: (row) => row.name },
      { name: "value", title: "Value", cell: (row) => h("span", { class: "mono", title: row.value ?? "" }, row.value ?? "–") },
      { name: "source", title: "Set by", cell: (row) => (row.source === "default" ? h("span", { class: "muted" }, who.default) : tag(who[row.source] ?? row.source, "accent")), sort: (row) => row.source },
      { name: "change", title: "", cell: (row) => may && !row.read_only && h("button", { type: "button", class: "quiet", "aria-label": `Change ${row.name}`, onclick: () => set(topic, row, session, reload) }, "Change") },
    ],
  });
  grid.update(rows);
  let text = "";
  let only = false;
  const apply = () => grid.filter((row) => (!only || row.source !== "default") && wordsIn(text)(`${row.name} ${row.value}`));
  const box = h("input", { type: "checkbox", onchange: (event) => ((only = event.target.checked), apply()) });
  fill(body, h("div", { class: "bar" }, search("Filter settings", "", (value) => ((text = value), apply())), h("label", { class: "check" }, box, "only those that somebody set")), grid.element);
}

function set(topic, row, session, reload) {
  const value = h("input", { value: row.value ?? "", class: "wide", autofocus: true });
  const back = h("input", { type: "checkbox" });
  const next = h("button", { type: "submit", class: "primary" }, "Show what will happen");
  const { dialog, form } = modal(row.name, [field("Value", value), h("label", { class: "check" }, back, "back to its default")], next);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    dialog.close();
    const wanted = back.checked ? null : value.value;
    ask({
      title: "Change setting",
      what: h("p", {}, h("code", {}, row.name), ` of ${topic.name}: `, h("code", {}, row.value ?? "–"), " → ", h("code", {}, wanted ?? "the default")),
      cli: `headrace topic alter ${quoted(topic.name)} ${wanted === null ? `--unset ${row.name}` : `--config ${quoted(`${row.name}=${wanted}`)}`}`,
      act: change("PATCH", `/topics/${encodeURIComponent(topic.name)}/settings`, { settings: { [row.name]: wanted } }),
      done: () => (announce(`${row.name} is changed.`), reload()),
      session,
    });
  });
}

function grow(topic, session, reload) {
  const now = topic.partitions.length;
  const total = h("input", { type: "number", min: now + 1, max: 100000, value: now + 1, autofocus: true });
  const next = h("button", { type: "submit", class: "primary" }, "Show what will happen");
  const { dialog, form } = modal("Add partitions", field("Partitions in all", total, `There are ${now}; their number cannot be made smaller.`), next);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    dialog.close();
    ask({
      title: "Add partitions",
      what: [h("p", {}, `${topic.name}: ${now} → ${total.value} partitions.`), h("p", {}, "Keys move: which partition a key goes to depends on how many there are, so records of one key may be in two partitions.")],
      cli: `headrace topic alter ${quoted(topic.name)} --partitions ${total.value}`,
      act: change("PATCH", `/topics/${encodeURIComponent(topic.name)}`, { partitions: Number(total.value) }),
      done: () => (announce(`${topic.name} has ${total.value} partitions.`), reload()),
      session,
    });
  });
}

function empty(topic, session, reload) {
  const which = choice("partition", topic.partitions.map((each) => [String(each.partition), `${each.partition}: ${whole(each.first)} to ${whole(each.next)}`]), "0");
  const before = h("input", { type: "number", min: 0, placeholder: "all there is" });
  const next = h("button", { type: "submit", class: "primary" }, "Show what will happen");
  const { dialog, form } = modal("Delete old records", h("div", { class: "fields" }, field("Partition", which), field("Before offset", before)), next);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    dialog.close();
    const partition = topic.partitions.find((each) => String(each.partition) === which.value);
    const target = before.value === "" ? partition.next : Number(before.value);
    ask({
      title: "Delete records",
      danger: true,
      what: h("p", {}, `${count(Math.max(0, target - partition.first), "record")} of partition ${which.value} of ${topic.name}, from offset ${whole(partition.first)} to before ${whole(target)}, are gone for good.`),
      cli: `headrace topic purge ${quoted(topic.name)} --partition ${which.value} --before ${target}`,
      act: change("DELETE", `/topics/${encodeURIComponent(topic.name)}/partitions/${which.value}/records?before=${target}`),
      done: () => (announce("They are deleted."), reload()),
      session,
    });
  });
}

function remove(topic, session, go) {
  const records = topic.partitions.reduce((sum, each) => sum + Math.max(0, (each.next ?? 0) - (each.first ?? 0)), 0);
  ask({
    title: "Delete topic",
    danger: true,
    what: [
      h("p", {}, `Topic ${topic.name}, its ${count(topic.partitions.length, "partition")} and ${count(records, "record")} are gone for good.`),
      topic.groups.length > 0 && h("p", {}, `${count(topic.groups.length, "group")} read it: ${topic.groups.slice(0, 5).map((each) => each.group).join(", ")}.`),
    ],
    cli: `headrace topic delete ${quoted(topic.name)}`,
    act: change("DELETE", `/topics/${encodeURIComponent(topic.name)}`),
    done: () => (announce(`Topic ${topic.name} is deleted.`), go("/topics")),
    session,
  });
}

function produce(topic, { session, reload }) {
  const key = h("input", { name: "key", placeholder: "none" });
  const form_ = choice("format", [["json", "JSON"], ["text", "Text"], ["binary", "Base64"]], "json");
  const partition = h("input", { type: "number", min: 0, max: topic.partitions.length - 1, placeholder: "by the key" });
  const headers = h("input", { placeholder: "name=value, name=value" });
  const value = h("textarea", { name: "value", spellcheck: "false", "aria-label": "Value" }, '{"hello": "world"}');
  const fields = [h("div", { class: "fields" }, field("Key", key), field("Format of the value", form_), field("Partition", partition), field("Headers", headers)), field("Value", value, "Empty writes a null, which deletes the key of a compacted topic.")];
  const trouble = h("div", {});
  const next = h("button", { type: "submit", class: "primary" }, "Show what will happen");
  const { dialog, form } = modal(`Produce to ${topic.name}`, [...fields, trouble], next);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    let content;
    try {
      content = value.value === "" ? null : form_.value === "json" ? JSON.parse(value.value) : value.value;
    } catch (error) {
      fill(trouble, h("div", { class: "problem", role: "alert" }, `The value is not JSON: ${error.message}.`));
      return;
    }
    const pairs = headers.value.split(",").map((each) => each.trim()).filter(Boolean).map((each) => [each.split("=")[0], each.split("=").slice(1).join("=")]);
    const body = { value: content, value_format: form_.value, ...(key.value ? { key: key.value, key_format: "text" } : {}), ...(partition.value ? { partition: Number(partition.value) } : {}), ...(pairs.length ? { headers: pairs } : {}) };
    dialog.close();
    ask({
      title: "Produce a message",
      what: [h("p", {}, `One record is written to ${topic.name}${key.value ? ` with the key ${key.value}` : ""}. It cannot be taken back.`), h("pre", { class: "payload", tabindex: "0" }, content === null ? "null" : form_.value === "json" ? JSON.stringify(content, null, 2) : content)],
      cli: `echo ${quoted(form_.value === "json" && content !== null ? JSON.stringify(content) : value.value)} | headrace produce ${quoted(topic.name)}${key.value ? ` --key ${quoted(key.value)}` : ""}${pairs.map(([name, text]) => ` --header ${quoted(`${name}=${text}`)}`).join("")}`,
      act: change("POST", `/topics/${encodeURIComponent(topic.name)}/records`, body),
      done: (answer) => (announce(`Written: partition ${answer.records[0].partition}, offset ${answer.records[0].offset}.`), reload()),
      session,
    });
  });
}

