// Dead letters: topics of them, what is in one and why, and sending chosen ones back.

import { get } from "../api.js";
import { fill, h, link, pathOf } from "../dom.js";
import { announce, ask, change, field, heading, nothing, search } from "../parts.js";
import { table, wordsIn } from "../table.js";
import { count, quoted, whole } from "../words.js";

export async function show(context) {
  if (context.rest.length) await one(context);
  else await all(context);
}

async function all({ element }) {
  const grid = table({
    label: "Topics of dead letters",
    sortBy: "waiting",
    descending: true,
    empty: "Nothing was given up: there is no topic whose name ends in .dead-letter.",
    columns: [
      { name: "topic", title: "Topic", cell: (row) => h("a", { class: "row", href: `/console${pathOf("dead-letters", row.topic)}` }, row.topic), sort: (row) => row.topic },
      { name: "waiting", title: "Waiting", class: "number", cell: (row) => whole(row.waiting), sort: (row) => row.waiting },
    ],
  });
  fill(element, heading("Dead letters", { under: "Records that consumers gave up, with why. They wait until somebody sends them back." }), grid.element);
  grid.update((await get("/dead-letters")).topics);
}

async function one({ element, rest, session, reload }) {
  const [topic] = rest;
  const { letters } = await get(`/console/api/dead-letters/${encodeURIComponent(topic)}`);
  const chosen = new Map();
  const send = h("button", { type: "button", class: "primary", disabled: true, onclick: () => redrive(topic, [...chosen.values()], session, reload) }, "Send back");
  const tell = () => {
    send.disabled = chosen.size === 0;
    fill(send, chosen.size ? `Send ${count(chosen.size, "letter")} back` : "Send back");
  };
  const place = (row) => `${row.partition}@${row.offset}`;
  const box = (row) => h("input", { type: "checkbox", checked: chosen.has(place(row)), "aria-label": `Choose ${place(row)}`, onchange: (event) => (event.target.checked ? chosen.set(place(row), row) : chosen.delete(place(row)), tell()) });
  const grid = table({
    label: `Dead letters of ${topic}`,
    sortBy: "place",
    empty: "None waits here.",
    columns: [
      { name: "choose", title: "", cell: box },
      { name: "place", title: "Place", cell: (row) => link(`${pathOf("topics", topic)}?partition=${row.partition}&from=${row.offset}`, place(row)), sort: (row) => row.offset },
      { name: "origin", title: "Came from", cell: (row) => (row.origin_topic ? link(`${pathOf("topics", row.origin_topic)}?partition=${row.origin_partition}&from=${row.origin_offset}`, `${row.origin_topic} ${row.origin_partition}@${row.origin_offset}`) : "–"), sort: (row) => row.origin_topic },
      { name: "group", title: "Group", class: "wide-only", cell: (row) => (row.group ? link(pathOf("groups", row.group), row.group) : "–"), sort: (row) => row.group },
      { name: "reason", title: "Why", cell: (row) => h("span", { title: row.reason }, row.reason || row.cause || "–"), sort: (row) => row.reason },
      { name: "attempts", title: "Tries", class: "number wide-only", cell: (row) => whole(row.attempts), sort: (row) => row.attempts },
      { name: "value", title: "Value", class: "wide-only", cell: (row) => h("span", { class: "mono" }, typeof row.value === "string" ? row.value.slice(0, 120) : JSON.stringify(row.value)?.slice(0, 120)) },
    ],
  });
  grid.update(letters);
  const every = () => {
    for (const row of grid.shown) chosen.set(place(row), row);
    grid.update(letters);
    tell();
  };
  fill(
    element,
    heading(topic, { actions: send }),
    h("div", { class: "bar" }, search("Filter by reason, group or origin", "", (text) => grid.filter((row) => wordsIn(text)(`${row.reason} ${row.group} ${row.origin_topic} ${JSON.stringify(row.value)}`))), h("button", { type: "button", onclick: every }, "Choose all shown"), h("span", { class: "end" }, link(pathOf("topics", topic), "the topic"))),
    letters.length ? grid.element : nothing("None waits here."),
  );
}

function redrive(topic, letters, session, reload) {
  const to = h("input", { placeholder: "where each came from", "aria-label": "To" });
  const targets = [...new Set(letters.map((each) => each.origin_topic || "?"))].join(", ");
  const body = () => ({ letters: letters.slice(0, 200).map(({ partition, offset }) => ({ partition, offset })), ...(to.value ? { to: to.value } : {}) });
  ask({
    title: "Send back",
    what: [h("p", {}, `${count(letters.length, "dead letter")} ${letters.length === 1 ? "is" : "are"} written again to ${targets}, each once, and wait here no longer.`), field("To another topic", to)],
    cli: letters.length === 1 ? `headrace dead-letter redrive ${quoted(topic)} --partition ${letters[0].partition} --offset ${letters[0].offset}` : `headrace dead-letter redrive ${quoted(topic)}`,
    act: () => change("POST", `/console/api/dead-letters/${encodeURIComponent(topic)}/redrives`, body())(),
    done: (answer) => (announce(answer.failed.length ? `${answer.sent} sent back, ${answer.failed.length} not: ${answer.failed[0].why}` : `${count(answer.sent, "letter")} sent back.`), reload()),
    session,
  });
}
