// Messages of a topic: from the newest, a time or an offset, or live; filtered by the server; opened, copied, downloaded.

import { get, query as queryOf } from "../api.js";
import { fill, h, link, pathOf } from "../dom.js";
import { choice, command, facts, nothing, problem, tag } from "../parts.js";
import { clock, count, moment, quoted, size, whole } from "../words.js";

const LIVE_MAX = 200;

export async function messages({ element, topic, query, go, onLeave }) {
  const wanted = {
    from: query.get("from") ?? "newest",
    partition: query.get("partition") ?? "",
    text: query.get("text") ?? "",
    where: query.get("where") ?? "",
    limit: query.get("limit") ?? "50",
  };
  const known = ["newest", "earliest", "live"].includes(wanted.from);
  const from = choice("from", [["newest", "Newest first"], ["earliest", "From the beginning"], ["time", "From a time"], ["offset", "From an offset"], ["live", "Live"]], known ? wanted.from : /^\d+$/.test(wanted.from) ? "offset" : "time");
  const at = h("input", { class: "at", "aria-label": "Time or offset", placeholder: "2026-05-01T12:00:00Z or an offset", value: known ? "" : wanted.from });
  const partition = choice("partition", [["", "All partitions"], ...topic.partitions.map((each) => [String(each.partition), `Partition ${each.partition}`])], wanted.partition);
  const text = h("input", { type: "search", placeholder: "Contains", "aria-label": "Contains", value: wanted.text });
  const where = h("input", { class: "wide mono", placeholder: 'Where: value.total > 10 and header.source = "web"', "aria-label": "Where", value: wanted.where, spellcheck: "false" });
  for (const each of [from, partition]) each.setAttribute("aria-label", each.name === "from" ? "Begin" : "Partition");
  const showAt = () => (at.hidden = !["time", "offset"].includes(from.value));
  from.addEventListener("change", showAt);
  showAt();
  const look = (event) => {
    event?.preventDefault();
    const begin = ["time", "offset"].includes(from.value) ? at.value.trim() || "earliest" : from.value;
    const needs = from.value === "offset" && partition.value === "" ? "0" : partition.value;
    go(`${pathOf("topics", topic.name)}${queryOf({ from: begin === "newest" ? "" : begin, partition: needs, text: text.value, where: where.value })}`);
  };
  const bar = h("form", { class: "bar", onsubmit: look }, from, at, partition, text, where, h("button", { type: "submit", class: "primary" }, "Look"));
  const list = h("tbody", {});
  const box = h("div", { class: "grid messages", tabindex: "0", role: "region", "aria-label": "Messages" }, h("table", {}, h("thead", {}, h("tr", {}, ["Time", "Partition", "Offset", "Key", "Value"].map((title, index) => h("th", { scope: "col", class: index === 1 || index === 2 ? "number wide-only" : null }, title)))), list));
  const state = h("p", { class: "muted", role: "status" });
  const more = h("div", {});
  const shown = [];
  const download = h("button", { type: "button", class: "quiet", onclick: () => save(topic.name, shown) }, "Download what is shown");
  const note = topic.hidden && h("p", {}, tag("hidden", "warning"), " A rule of this console hides payloads of this topic, or parts of them.");
  fill(element, bar, note, h("div", { class: "bar" }, state, h("span", { class: "end" }, download)), box, more);
  box.hidden = true;
  const add = (records, first) => {
    shown[first ? "unshift" : "push"](...records);
    const rows = records.flatMap((record) => lines(topic, record));
    if (first) list.prepend(...rows);
    else list.append(...rows);
    box.hidden = shown.length === 0;
  };
  if (wanted.from === "live") watch(topic, wanted, { add, list, shown, state, onLeave });
  else await page(topic, wanted, { add, state, more, shown });
}

async function page(topic, wanted, { add, state, more, shown }) {
  let looked = 0;
  const next = async (cursor) => {
    const base = `/console/api/topics/${encodeURIComponent(topic.name)}/messages`;
    const found = await get(base + queryOf({ ...wanted, cursor }));
    looked += found.looked_at;
    add(found.records, false);
    const filtered = wanted.text || wanted.where;
    fill(state, shown.length ? `${count(shown.length, "message")}${filtered ? ` among ${whole(looked)} looked at` : ""}` : filtered ? `None among ${whole(looked)} looked at.` : "");
    if (!shown.length && !found.next) fill(more, nothing(filtered ? "No message is like that." : "There are no messages here."));
    else if (found.next) {
      const button = h("button", { type: "button" }, wanted.from === "newest" ? "Older ones" : "Further ones");
      button.addEventListener("click", async () => {
        button.disabled = true;
        try {
          await next(found.next);
        } catch (error) {
          fill(more, problem(error));
        }
      });
      fill(more, button);
    } else fill(more);
  };
  try {
    await next(undefined);
  } catch (error) {
    fill(more, problem(error));
  }
}

function watch(topic, wanted, { add, list, shown, state, onLeave }) {
  const path = `/console/api/topics/${encodeURIComponent(topic.name)}/live`;
  let source = null;
  let again = null;
  let after = "";
  let left = 0;
  const tell = () => fill(state, `Live. ${count(shown.length, "message")}${left ? `; ${whole(left)} were too fast to show` : ""}.`);
  const open = () => {
    source = new EventSource(path + queryOf({ partition: wanted.partition, text: wanted.text, where: wanted.where, after }));
    source.onopen = tell;
    source.onmessage = (event) => {
      const { records, left_out } = JSON.parse(event.data);
      after = event.lastEventId;
      left += left_out;
      add(records.reverse(), true);
      while (shown.length > LIVE_MAX) shown.pop();
      while (list.children.length > LIVE_MAX) list.lastChild.remove();
      tell();
    };
    source.addEventListener("problem", (event) => stop(JSON.parse(event.data).detail));
    source.onerror = () => (source.readyState === EventSource.CLOSED ? stop("The stream ended.") : fill(state, "The stream is broken; it is tried again."));
  };
  // Where a broker is away, the place is kept, and the stream goes on from there.
  const stop = (why) => {
    source.close();
    fill(state, `${why} It is tried again.`);
    again = setTimeout(open, 1000);
  };
  fill(state, "Waiting for the first message…");
  open();
  onLeave(() => (source.close(), clearTimeout(again)));
}

function lines(topic, record) {
  let detail = null;
  const open = h("button", { type: "button", class: "open", "aria-expanded": "false", onclick: toggle, title: moment(record.timestamp) }, clock(record.timestamp));
  const row = h(
    "tr",
    {},
    h("td", {}, open),
    h("td", { class: "number wide-only" }, record.partition),
    h("td", { class: "number wide-only" }, whole(record.offset)),
    h("td", { class: "key" }, brief(record.key)),
    h("td", { class: "value" }, brief(record.value)),
  );
  function toggle() {
    if (detail) {
      detail.remove();
      detail = null;
    } else {
      detail = h("tr", { class: "detail" }, h("td", { colspan: 5 }, opened(topic, record)));
      row.after(detail);
    }
    open.setAttribute("aria-expanded", String(detail !== null));
  }
  return [row];
}

const brief = (value) => (value === null ? h("span", { class: "null" }, "null") : typeof value === "string" ? value.slice(0, 300) : JSON.stringify(value).slice(0, 300));

function opened(topic, record) {
  const payload = h("pre", { class: "payload", tabindex: "0" }, pretty(record.value));
  const views = h("div", { class: "spans", role: "group", "aria-label": "Shown as" });
  const choose = (name, show) => h("button", { type: "button", "aria-pressed": String(name === "As decoded"), onclick: (event) => pick(event.target, show) }, name);
  const pick = async (button, show) => {
    for (const each of views.children) each.setAttribute("aria-pressed", String(each === button));
    fill(payload, await show());
  };
  const raw = async () => {
    const path = `/console/api/topics/${encodeURIComponent(topic.name)}/messages${queryOf({ partition: record.partition, from: record.offset, limit: 1, raw: true })}`;
    const bytes = (await get(path)).records[0]?.value_raw ?? null;
    return bytes === null ? null : Uint8Array.from(atob(bytes), (letter) => letter.charCodeAt(0));
  };
  fill(views, choose("As decoded", () => pretty(record.value)), choose("Text", async () => new TextDecoder().decode((await raw()) ?? new Uint8Array())), choose("Hex", async () => hex((await raw()) ?? new Uint8Array())));
  const place = `${pathOf("topics", topic.name)}?partition=${record.partition}&from=${record.offset}`;
  const letter = topic.name.endsWith(".dead-letter") && link(pathOf("dead-letters", topic.name), "its story");
  return h(
    "div",
    { class: "preview" },
    facts([
      ["Place", link(place, `${record.partition} @ ${whole(record.offset)}`)],
      ["Key", h("span", { class: "mono" }, record.key === null ? "null" : pretty(record.key))],
      ["Format", record.value_format ?? "null"],
      record.value_schema !== null && record.value_schema !== undefined && ["Schema", h("a", { href: `/schemas/ids/${record.value_schema}`, target: "_blank" }, record.value_schema)],
      ["Size", size(record.value_size)],
      letter && ["Dead letter", letter],
    ]),
    record.note && h("p", { class: "muted" }, record.note),
    record.headers.length > 0 && h("div", {}, h("h3", {}, "Headers"), h("dl", { class: "facts" }, record.headers.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", { class: "mono" }, value ?? "null"))))),
    !record.hidden && record.value !== null && views,
    payload,
    command(`headrace consume ${quoted(topic.name)} --partition ${record.partition} --from ${record.offset} --count 1`),
  );
}

const pretty = (value) => (typeof value === "string" ? value : JSON.stringify(value, null, 2));

function hex(bytes) {
  const rows = [];
  for (let at = 0; at < Math.min(bytes.length, 16_384); at += 16) {
    const some = [...bytes.slice(at, at + 16)];
    const left = some.map((byte) => byte.toString(16).padStart(2, "0")).join(" ");
    const right = some.map((byte) => (byte >= 32 && byte < 127 ? String.fromCharCode(byte) : "·")).join("");
    rows.push(`${at.toString(16).padStart(6, "0")}  ${left.padEnd(47)}  ${right}`);
  }
  return rows.join("\n");
}

function save(name, records) {
  const lines = records.map((record) => JSON.stringify(record)).join("\n");
  const address = URL.createObjectURL(new Blob([`${lines}\n`], { type: "application/x-ndjson" }));
  const anchor = h("a", { href: address, download: `${name}.ndjson` });
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}
