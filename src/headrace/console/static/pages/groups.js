// All groups of every kind, with their lag.

import { get, objects } from "../api.js";
import { fill, h, link, pathOf } from "../dom.js";
import { watch } from "../live.js";
import { heading, search, tag } from "../parts.js";
import { table, wordsIn } from "../table.js";
import { count, short } from "../words.js";

export const KINDS = { classic: "classic", consumer: "new protocol", share: "share" };

export async function show({ element, query, onLeave }) {
  const grid = table({
    label: "Groups",
    sortBy: "lag",
    descending: true,
    empty: "No group is like that.",
    columns: [
      { name: "name", title: "Group", cell: (row) => h("a", { class: "row", href: `/console${pathOf("groups", row.name)}` }, row.name), sort: (row) => row.name },
      { name: "kind", title: "Kind", class: "wide-only", cell: (row) => tag(KINDS[row.kind] ?? row.kind, row.kind === "share" ? "accent" : null), sort: (row) => row.kind },
      { name: "state", title: "State", cell: (row) => state(row.state), sort: (row) => row.state },
      { name: "lag", title: "Lag", class: "number", cell: (row) => short(row.lag), sort: (row) => row.lag ?? -1 },
      { name: "worst", title: "Mostly in", class: "wide-only", cell: (row) => (row.worst ? link(pathOf("topics", row.worst), row.worst) : "–"), sort: (row) => row.worst },
    ],
  });
  let text = query.get("filter") ?? "";
  const number = h("span", { class: "muted" });
  const apply = () => {
    const test = wordsIn(text);
    grid.filter((row) => test(`${row.name} ${row.kind} ${row.state}`));
    fill(number, count(grid.shown.length, "group"));
    history.replaceState(null, "", `/console/groups${text ? `?${new URLSearchParams({ filter: text })}` : ""}`);
  };
  fill(element, heading("Groups"), h("div", { class: "bar" }, search("Filter groups", text, (value) => ((text = value), apply())), h("span", { class: "end" }, number)), grid.element);
  const refresh = async () => {
    grid.update(objects(await get("/console/api/groups")));
    fill(number, count(grid.shown.length, "group"));
  };
  await refresh();
  apply();
  onLeave(watch((newest) => newest && refresh().catch(() => {})));
}

export function state(text) {
  return tag(text, text === "stable" ? "well" : text === "empty" || text === "dead" ? null : "warning");
}
