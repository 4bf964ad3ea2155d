// The cluster at a glance.

import { chart, spans } from "../chart.js";
import { fill, h, link, pathOf } from "../dom.js";
import { watch } from "../live.js";
import { heading, nothing, waiting } from "../parts.js";
import { bytesRate, percent, rate, seconds, short, size, whole } from "../words.js";

export async function show({ element, query, go, onLeave }) {
  const span = Number(query.get("seconds")) || 3600;
  const choose = (value) => go(value === 3600 ? "/" : `/?seconds=${value}`, { replace: true });
  const sentence = h("div", {}, waiting());
  const tiles = h("dl", { class: "tiles" });
  const lists = h("div", { class: "columns" });
  const charts = [
    chart({ title: "Records written", series: [{ name: "cluster/records_in" }], show: rate, seconds: span }),
    chart({ title: "Lag of all groups", series: [{ name: "cluster/lag" }], show: short, seconds: span }),
  ];
  const measured = [
    chart({ title: "Bytes", series: [{ name: "cluster/bytes_in", label: "in" }, { name: "cluster/bytes_out", label: "out" }], show: bytesRate, seconds: span }),
    chart({ title: "p99 of requests", series: [{ name: "cluster/produce_p99", label: "produce" }, { name: "cluster/fetch_p99", label: "fetch" }], show: seconds, seconds: span }),
  ];
  const asked = [chart({ title: "Round trip of the console", series: [{ name: "cluster/round_trip" }], show: seconds, seconds: span })];
  const place = h("div", { class: "charts" }, charts.map((each) => each.element));
  fill(element, heading("Overview"), sentence, tiles, h("div", { class: "bar" }, h("h2", {}, "Over time"), h("span", { class: "end" }, spans(span, choose))), place, lists);

  let more = null;
  let drawn = 0;
  onLeave(
    watch((newest) => {
      if (!newest) return;
      tell(newest, sentence, tiles, lists);
      const wanted = "bytes_in" in newest.figures ? measured : asked;
      if (more !== wanted) {
        more = wanted;
        fill(place, [...charts, ...more].map((each) => each.element));
        drawn = 0;
      }
      if (Date.now() - drawn > 9000) {
        drawn = Date.now();
        for (const each of [...charts, ...more]) each.refresh();
      }
    }),
  );
}

function tell(newest, sentence, tiles, lists) {
  const { figures, counts } = newest;
  const state = newest.is_well ? (newest.troubles.length ? "warning" : "well") : "serious";
  fill(
    sentence,
    h("p", { class: "sentence", "data-state": state }, newest.health),
    newest.troubles.length > 0 &&
      h("ul", { class: "troubles", style: { "margin-top": "12px" } }, newest.troubles.map((each) => h("li", { class: each.severity }, each.link ? link(each.link, each.text) : each.text, " ", each.advice))),
  );
  const p99 = figures.produce_p99;
  fill(
    tiles,
    tile("Written", rate(figures.records_in), figures.bytes_in === undefined ? null : bytesRate(figures.bytes_in)),
    figures.records_out !== undefined && tile("Read", rate(figures.records_out), bytesRate(figures.bytes_out)),
    p99 === undefined ? tile("Round trip", seconds(figures.round_trip), "of the console's own requests") : tile("Produce p99", seconds(p99), `fetch ${seconds(figures.fetch_p99)}`),
    tile("Lag", short(figures.lag), "records, over all groups"),
    tile("Topics", whole(counts.topics), `${whole(counts.partitions)} partitions`),
    tile("Kept", counts.bytes === null ? short(counts.records) : size(counts.bytes), `${short(counts.records)} records`),
    figures.disk_used !== undefined && tile("Fullest disk", percent(figures.disk_used), null),
  );
  fill(
    lists,
    card("Busiest topics", newest.busiest.map((each) => [link(pathOf("topics", each.topic), each.topic), rate(each.rate)]), "No topic has records yet."),
    card("Furthest behind", newest.behind.map((each) => [link(pathOf("groups", each.group), each.group), `${short(each.lag)} records`]), "No group is behind."),
  );
}

const tile = (name, value, under) => h("div", { class: "tile" }, h("dt", {}, name), h("dd", {}, value, under && h("small", {}, under)));

function card(title, rows, empty) {
  return h("section", { class: "card" }, h("h2", {}, title), rows.length ? h("ul", {}, rows.map(([left, right]) => h("li", {}, left, h("span", {}, right)))) : nothing(empty));
}
