// The brokers: how each is and why, their disks, replicas on the move, elections, and what the cluster's settings are.

import { get } from "../api.js";
import { fill, h, link, pathOf } from "../dom.js";
import { watch } from "../live.js";
import { announce, ask, change, command, heading, modal, nothing, search, tag } from "../parts.js";
import { table, wordsIn } from "../table.js";
import { count, size, whole } from "../words.js";

export async function show({ element, session, reload, onLeave }) {
  const grid = table({
    label: "Brokers",
    sortBy: "id",
    columns: [
      { name: "id", title: "Broker", cell: (row) => [h("strong", {}, row.id), row.is_controller && [" ", tag("controller", "accent")]], sort: (row) => row.id },
      { name: "address", title: "Address", class: "wide-only", cell: (row) => row.address ?? "–", sort: (row) => row.address },
      { name: "rack", title: "Rack", class: "wide-only", cell: (row) => row.rack ?? "–", sort: (row) => row.rack },
      { name: "state", title: "State", cell: (row) => h("span", { title: row.why ?? "" }, tag(row.out_of_sync ? `${whole(row.out_of_sync)} behind` : row.state, row.state !== "up" ? "serious" : row.out_of_sync ? "warning" : "well")) },
      { name: "leads", title: "Leads", class: "number", cell: (row) => whole(row.leads), sort: (row) => row.leads },
      { name: "replicas", title: "Copies", class: "number", cell: (row) => whole(row.replicas), sort: (row) => row.replicas },
      { name: "disks", title: "Disk", cell: (row) => (row.disks ?? []).map(disk) },
      { name: "settings", title: "", cell: (row) => row.state === "up" && h("button", { type: "button", class: "quiet", onclick: () => settings(row.id) }, "Settings") },
    ],
  });
  const moves = h("div", {});
  const elections = h("div", {});
  fill(
    element,
    heading("Brokers"),
    grid.element,
    h("h2", {}, "Replicas on the move"),
    moves,
    h("h2", {}, "Leaders that are not the preferred ones"),
    elections,
    h("h2", {}, "Drain, rebalance, add, replace"),
    h("p", { class: "muted" }, "These move much data and are watched best in a terminal; each shows its plan first."),
    h("div", { class: "columns" }, command("headrace cluster drain ID --dry-run"), command("headrace cluster rebalance --dry-run"), command("headrace cluster status")),
  );
  const refresh = async () => {
    const found = await get("/console/api/brokers");
    grid.update(found.brokers);
    fill(moves, found.moves.length ? moving(found.moves, session, reload) : nothing("Nothing is on its way."));
    fill(elections, found.elections.length ? elect(found.elections, session, reload, found.rights.includes("alter")) : nothing("Every partition is led by the first of its copies."));
  };
  await refresh();
  onLeave(watch((newest) => newest && refresh().catch(() => {})));
}

function disk(each) {
  if (each.failed) return tag("failed", "serious");
  if (!each.total) return h("span", { class: "muted" }, each.directory || "in memory");
  const used = 1 - each.free / each.total;
  const bar = h("i", { class: used > 0.9 ? "full" : null, style: { width: `${Math.round(used * 100)}%` } });
  return h("span", { title: each.directory }, h("span", { class: "meter" }, bar), `${size(each.free)} free of ${size(each.total)}`);
}

function moving(moves, session, reload) {
  const grid = table({
    label: "Replicas on the move",
    sortBy: "topic",
    columns: [
      { name: "topic", title: "Partition", cell: (row) => link(pathOf("topics", row.topic, "partitions"), `${row.topic} ${row.partition}`), sort: (row) => row.topic },
      { name: "adding", title: "To", cell: (row) => row.adding.join(", ") || "–" },
      { name: "removing", title: "From", cell: (row) => row.removing.join(", ") || "–" },
      { name: "done", title: "Copied", cell: (row) => [h("span", { class: "meter" }, h("i", { style: { width: `${row.bytes ? Math.min(100, Math.round((100 * row.copied) / row.bytes)) : 0}%` } })), `${size(row.copied)} of ${size(row.bytes)}`] },
      { name: "stop", title: "", cell: (row) => h("button", { type: "button", class: "quiet", onclick: () => stop(row, session, reload) }, "Call off") },
    ],
  });
  grid.update(moves);
  return grid.element;
}

function stop(row, session, reload) {
  ask({
    title: "Call the move off",
    what: h("p", {}, `Partition ${row.partition} of ${row.topic} stays where it was; what was copied to ${row.adding.join(", ")} is dropped.`),
    cli: "kafka-reassign-partitions.sh --cancel",
    act: change("DELETE", `/moves/${encodeURIComponent(row.topic)}/${row.partition}`),
    done: () => (announce("The move is called off."), reload()),
    session,
  });
}

function elect(elections, session, reload, may) {
  const grid = table({
    label: "Elections",
    sortBy: "topic",
    columns: [
      { name: "topic", title: "Partition", cell: (row) => `${row.topic} ${row.partition}`, sort: (row) => row.topic },
      { name: "from", title: "Led by", class: "number", cell: (row) => (row.from < 0 ? tag("none", "serious") : row.from) },
      { name: "to", title: "Preferred", class: "number", cell: (row) => row.to },
    ],
  });
  grid.update(elections);
  const act = () =>
    ask({
      title: "Elect preferred leaders",
      what: [h("p", {}, `${count(elections.length, "partition")} get another leader. Clients notice and go on; it takes a moment.`), grid.element],
      cli: "headrace cluster rebalance",
      act: change("POST", "/console/api/elections"),
      done: (answer) => (announce(`${count(answer.elected, "partition")} elected.`), reload()),
      session,
    });
  return h("div", { class: "bar" }, h("span", {}, count(elections.length, "partition")), may && h("button", { type: "button", onclick: act }, "Elect preferred leaders"));
}

async function settings(id) {
  const { settings: found } = await get(`/brokers/${id}/settings`);
  const grid = table({
    label: `Settings of broker ${id}`,
    sortBy: "name",
    columns: [
      { name: "name", title: "Setting", cell: (row) => h("code", {}, row.name), sort: (row) => row.name },
      { name: "value", title: "Value", cell: (row) => h("span", { class: "mono" }, row.value ?? "–") },
      { name: "source", title: "Set by", cell: (row) => (row.is_default ? h("span", { class: "muted" }, "default") : tag(row.source, "accent")), sort: (row) => row.source },
    ],
  });
  grid.update(Object.entries(found).map(([name, each]) => ({ name, ...each })));
  modal(`Settings of broker ${id}`, h("div", { class: "preview" }, search("Filter settings", "", (text) => grid.filter((row) => wordsIn(text)(`${row.name} ${row.value}`))), grid.element));
}
