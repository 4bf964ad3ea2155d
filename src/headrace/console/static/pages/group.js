// One group: its members and what they hold, how far it is everywhere, its lag over time, and moving it.

import { get, send } from "../api.js";
import { chart, spans } from "../chart.js";
import { fill, h, link, pathOf } from "../dom.js";
import { watch } from "../live.js";
import { announce, ask, change, choice, facts, field, heading, modal, nothing, problem, tag } from "../parts.js";
import { table } from "../table.js";
import { count, quoted, short, whole } from "../words.js";
import { KINDS, state } from "./groups.js";

export async function show(context) {
  const { element, rest, query, session, go, onLeave } = context;
  const [name] = rest;
  const address = `/console/api/groups/${encodeURIComponent(name)}`;
  let group = await get(address);
  const span = Number(query.get("seconds")) || 3600;
  const choose = (value) => go(`${pathOf("groups", name)}?seconds=${value}`, { replace: true });
  const lag = chart({ title: "Lag", series: [{ name: `group/${name}/lag` }], show: short, seconds: span });
  const top = h("div", {});
  const members = h("div", {});
  const places = table({
    label: "Partitions",
    sortBy: "lag",
    descending: true,
    empty: "The group has no offsets yet.",
    columns: [
      { name: "topic", title: "Topic", cell: (row) => link(pathOf("topics", row.topic), row.topic), sort: (row) => row.topic },
      { name: "partition", title: "Partition", class: "number", cell: (row) => row.partition, sort: (row) => row.partition },
      { name: "offset", title: group.kind === "share" ? "Done up to" : "Committed", class: "number", cell: (row) => whole(row.offset), sort: (row) => row.offset ?? -1 },
      { name: "end", title: "End", class: "number wide-only", cell: (row) => whole(row.end), sort: (row) => row.end ?? -1 },
      { name: "lag", title: "Lag", class: "number", cell: (row) => whole(row.lag), sort: (row) => row.lag ?? -1 },
      { name: "member", title: "Held by", class: "wide-only", cell: (row) => owner(group, row.member) },
    ],
  });
  const may = (right) => group.rights.includes(right);
  const actions = [
    may("read") && h("button", { type: "button", class: "primary", onclick: () => reset(group, context) }, "Move the group"),
    may("delete") && h("button", { type: "button", onclick: () => remove(group, session, go) }, "Delete group"),
  ];
  const tell = () => {
    fill(top, facts([["Kind", KINDS[group.kind] ?? group.kind], ["State", state(group.state)], ["Members", whole(group.members.length)], ["Lag", short(group.lag)], group.assignor && ["Assignor", group.assignor], group.epoch !== null && ["Epoch", whole(group.epoch)]]));
    fill(members, group.members.length ? people(group) : nothing("No member is at work."));
    places.update(group.partitions);
  };
  tell();
  fill(
    element,
    heading(name, { actions }),
    top,
    h("div", { class: "bar" }, h("h2", {}, "Lag over time"), h("span", { class: "end" }, spans(span, choose))),
    h("div", { class: "charts" }, lag.element),
    h("h2", {}, "Members"),
    members,
    h("h2", {}, "Partitions"),
    places.element,
  );
  onLeave(
    watch((newest) => {
      if (!newest) return;
      lag.refresh();
      get(address).then((found) => ((group = found), tell()), () => {});
    }),
  );
}

function owner(group, id) {
  const member = group.members.find((each) => each.id === id);
  return member ? h("span", { title: id }, member.client_id || id) : "–";
}

function people(group) {
  const held = (places) => Object.entries(Object.groupBy(places, ([topic]) => topic)).map(([topic, each]) => `${topic} ${ranges(each.map(([, partition]) => partition))}`).join(", ");
  const grid = table({
    label: "Members",
    sortBy: "client",
    columns: [
      { name: "client", title: "Client", cell: (row) => h("span", { title: row.id }, row.client_id || row.id, row.instance_id && [" ", tag(row.instance_id)]), sort: (row) => row.client_id },
      { name: "host", title: "From", class: "wide-only", cell: (row) => row.host, sort: (row) => row.host },
      { name: "count", title: "Holds", class: "number", cell: (row) => whole(row.holds.length), sort: (row) => row.holds.length },
      { name: "holds", title: "Partitions", cell: (row) => h("span", { title: held(row.holds) }, held(row.holds) || "–", row.wanted && [" ", tag(`shall hold ${held(row.wanted) || "none"}`, "warning")]) },
      { name: "epoch", title: "Epoch", class: "number wide-only", cell: (row) => whole(row.epoch), sort: (row) => row.epoch ?? -1 },
    ],
  });
  grid.update(group.members);
  return grid.element;
}

// 0, 1, 2, 5 becomes 0–2, 5.
function ranges(numbers) {
  const parts = [];
  for (const number of [...numbers].sort((a, b) => a - b)) {
    const last = parts.at(-1);
    if (last && last[1] === number - 1) last[1] = number;
    else parts.push([number, number]);
  }
  return parts.map(([first, last]) => (first === last ? first : `${first}–${last}`)).join(", ");
}

function reset(group, { session, reload }) {
  const topics = [...new Set(group.partitions.map((each) => each.topic))];
  const topic = choice("topic", [["", "All its topics"], ...topics.map((each) => [each, each])], "");
  const to = choice("to", [["earliest", "The beginning"], ["latest", "The end"], ["time", "A time"], ["offset", "An offset"], ["by", "So many records on or back"]], "earliest");
  const at = h("input", { placeholder: "2026-05-01T12:00:00Z, 42, or -100", "aria-label": "Where" });
  const other = h("input", { placeholder: "another topic", "aria-label": "Another topic" });
  const trouble = h("div", {});
  const next = h("button", { type: "submit", class: "primary" }, "Show what will happen");
  const { dialog, form } = modal("Move the group", [h("div", { class: "fields" }, field("Topic", topic), field("Or", other), field("To", to), field("Where", at, "For a time, an offset or a number of records.")), trouble], next);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const chosen = other.value || topic.value;
    const body = { topics: chosen ? [chosen] : [], ...(to.value === "by" ? { by: Number(at.value) || 0 } : { to: ["time", "offset"].includes(to.value) ? at.value : to.value }) };
    try {
      const plan = await send("POST", `/console/api/groups/${encodeURIComponent(group.name)}/plans`, body);
      dialog.close();
      confirm(group, plan, body, session, reload);
    } catch (error) {
      fill(trouble, problem(error));
    }
  });
}

function confirm(group, plan, body, session, reload) {
  const grid = table({
    label: "What will happen",
    sortBy: "topic",
    columns: [
      { name: "topic", title: "Topic", cell: (row) => row.topic, sort: (row) => `${row.topic} ${String(row.partition).padStart(6, "0")}` },
      { name: "partition", title: "Partition", class: "number", cell: (row) => row.partition },
      { name: "from", title: "Now", class: "number", cell: (row) => whole(row.from) },
      { name: "to", title: "Then", class: "number", cell: (row) => whole(row.to) },
      { name: "by", title: "Records", class: "number", cell: (row) => (row.from === null ? "–" : `${row.to >= row.from ? "+" : "−"}${whole(Math.abs(row.to - row.from))}`) },
    ],
  });
  grid.update(plan.partitions);
  const again = plan.partitions.reduce((sum, row) => sum + Math.max(0, (row.from ?? 0) - row.to), 0);
  const skipped = plan.partitions.reduce((sum, row) => sum + Math.max(0, row.to - (row.from ?? row.to)), 0);
  const offsets = plan.partitions.map(({ topic, partition, to }) => ({ topic, partition, offset: to }));
  const name = encodeURIComponent(group.name);
  const path = plan.kind === "share" ? `/console/api/share-groups/${name}/offsets` : `/groups/${name}/offsets`;
  const where = body.by !== undefined ? `--by ${body.by}` : `--to ${quoted(body.to)}`;
  const cli = plan.kind === "share" ? `kafka-share-groups.sh --reset-offsets --group ${quoted(group.name)} --to-${quoted(body.to ?? "offset")} --execute` : `headrace group reset ${quoted(group.name)}${body.topics.map((topic) => ` --topic ${quoted(topic)}`).join("")} ${where} --execute`;
  ask({
    title: "Move the group",
    what: [h("p", {}, `${count(again, "record")} will be read again, ${count(skipped, "record")} will be passed over.`), grid.element],
    cli,
    act: change("PATCH", path, { offsets }),
    done: () => (announce(`Group ${group.name} goes on from there.`), reload()),
    danger: skipped > 0,
    session,
  });
}

function remove(group, session, go) {
  ask({
    title: "Delete group",
    danger: true,
    what: h("p", {}, `Group ${group.name} and its offsets in ${count(group.partitions.length, "partition")} are gone; whoever joins it again begins anew.${group.members.length ? ` It has ${count(group.members.length, "member")}: stop them first.` : ""}`),
    cli: `headrace group delete ${quoted(group.name)}`,
    act: change("DELETE", `/groups/${encodeURIComponent(group.name)}`),
    done: () => (announce(`Group ${group.name} is deleted.`), go("/groups")),
    session,
  });
}
