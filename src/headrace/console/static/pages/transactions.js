// Transactional ids: what each is at, since when, and ending one that hangs.

import { get } from "../api.js";
import { fill, h, link, pathOf } from "../dom.js";
import { watch } from "../live.js";
import { announce, ask, change, heading, search, tag } from "../parts.js";
import { table, wordsIn } from "../table.js";
import { count, quoted, seconds } from "../words.js";

export async function show({ element, session, query, reload, onLeave }) {
  const grid = table({
    label: "Transactions",
    sortBy: "seconds",
    descending: true,
    empty: "There are no transactional ids like that.",
    columns: [
      { name: "id", title: "Transactional id", cell: (row) => row.id, sort: (row) => row.id },
      { name: "state", title: "State", cell: (row) => tag(row.state, row.state === "Ongoing" ? "accent" : row.state.startsWith("Prepare") ? "warning" : null), sort: (row) => row.state },
      { name: "seconds", title: "Open for", class: "number", cell: (row) => (row.seconds === null ? "–" : seconds(row.seconds)), sort: (row) => row.seconds ?? -1 },
      { name: "producer", title: "Producer", class: "number wide-only", cell: (row) => `${row.producer} (${row.epoch})`, sort: (row) => row.producer },
      { name: "partitions", title: "Holds", cell: (row) => row.partitions.map(([topic, partition], index) => [index > 0 && ", ", link(`${pathOf("topics", topic)}?partition=${partition}`, `${topic} ${partition}`)]) },
      { name: "abort", title: "", cell: (row) => row.state === "Ongoing" && h("button", { type: "button", class: "quiet", onclick: () => abort(row, session, reload) }, "Abort") },
    ],
  });
  const filter = search("Filter ids", query.get("filter"), (text) => grid.filter((row) => wordsIn(text)(`${row.id} ${row.state}`)));
  fill(element, heading("Transactions", { under: "What is open holds up those who read only what is committed." }), h("div", { class: "bar" }, filter), grid.element);
  const refresh = async () => grid.update((await get("/console/api/transactions")).transactions);
  await refresh();
  onLeave(watch((newest) => newest && refresh().catch(() => {})));
}

function abort(row, session, reload) {
  ask({
    title: "Abort transaction",
    danger: true,
    what: h("p", {}, `What ${row.id} wrote to ${count(row.partitions.length, "partition")} in its open transaction is aborted, and its producer ${row.producer} is fenced: it fails at its next request.`),
    cli: `headrace transaction abort ${quoted(row.id)}`,
    act: change("POST", `/transactions/${encodeURIComponent(row.id)}/aborts`),
    done: () => (announce(`The transaction of ${row.id} is aborted.`), reload()),
    session,
  });
}
