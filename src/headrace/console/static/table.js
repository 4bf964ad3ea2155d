// A table that sorts, filters and stays fast: of many rows only those in sight are on the page.

import { fill, h } from "./dom.js";

const ROW = 37; // pixels, as in the style sheet
const ALL_BELOW = 150;

// columns: {name, title, cell(row), sort(row), class}.  `update(rows)` shows other rows; `filter(test)` those that pass.
export function table({ columns, label, sortBy, descending = false, empty = "There is nothing here." }) {
  let rows = [];
  let ordered = [];
  let shown = [];
  let test = null;
  let sorted = sortBy;
  let down = descending;
  const head = h("tr", {});
  const body = h("tbody", {});
  const grid = h("table", { "aria-label": label }, h("thead", {}, head), body);
  const box = h("div", { class: "grid", tabindex: "0", role: "region", "aria-label": label, onscroll: draw }, grid);
  const note = h("p", { class: "nothing", hidden: true }, empty);

  function heads() {
    fill(
      head,
      columns.map((column) => {
        const direction = column.name === sorted ? (down ? "descending" : "ascending") : null;
        const title = column.sort
          ? h("button", { type: "button", onclick: () => sort(column.name) }, column.title, direction ? (down ? " ↓" : " ↑") : "")
          : column.title;
        return h("th", { scope: "col", class: column.class, "aria-sort": direction }, title);
      }),
    );
  }

  function sort(name) {
    down = name === sorted ? !down : typeof (rows[0] && columns.find((column) => column.name === name).sort(rows[0])) === "number";
    sorted = name;
    order();
  }

  // Sorting ten thousand rows takes a while, and filtering them does not: whoever types waits only for that.
  function order() {
    const value = columns.find((each) => each.name === sorted)?.sort;
    ordered = value ? [...rows].sort((a, b) => compare(value(a), value(b)) * (down ? -1 : 1)) : rows;
    arrange();
  }

  function arrange() {
    shown = test ? ordered.filter(test) : ordered;
    grid.setAttribute("aria-rowcount", shown.length + 1);
    note.hidden = shown.length > 0;
    box.hidden = shown.length === 0;
    box.classList.toggle("long", shown.length > ALL_BELOW);
    heads();
    draw(true);
  }

  let drawn = "";
  function draw(again) {
    const few = shown.length <= ALL_BELOW;
    const first = few ? 0 : Math.max(0, Math.floor(box.scrollTop / ROW) - 10);
    const last = few ? shown.length : Math.min(shown.length, first + Math.ceil((box.clientHeight || 600) / ROW) + 20);
    if (again !== true && drawn === `${first}-${last}`) return;
    drawn = `${first}-${last}`;
    const kept = document.activeElement?.closest?.("tbody") === body ? document.activeElement.getAttribute("href") : null;
    fill(body, space(first), shown.slice(first, last).map(line), space(shown.length - last));
    if (kept) body.querySelector(`a[href="${CSS.escape(kept)}"]`)?.focus({ preventScroll: true });
  }

  const space = (count) => (count > 0 ? h("tr", { "aria-hidden": "true", class: "space" }, h("td", { colspan: columns.length, style: { height: `${count * ROW}px` } })) : null);
  const line = (row) => h("tr", {}, columns.map((column) => h("td", { class: column.class }, column.cell(row))));

  order();
  return {
    element: h("div", {}, box, note),
    update(given) {
      rows = given;
      order();
    },
    filter(given) {
      test = given;
      arrange();
    },
    get shown() {
      return shown;
    },
  };
}

const ORDER = new Intl.Collator("en", { numeric: true });

function compare(a, b) {
  if (a === b) return 0;
  if (a === null || a === undefined) return -1;
  if (b === null || b === undefined) return 1;
  return typeof a === "string" ? ORDER.compare(a, b) : a - b;
}

// Words in any order, each somewhere in the text; a minus before one says that it must not be there.
export function wordsIn(text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  return (value) => {
    const low = value.toLowerCase();
    return words.every((word) => (word.startsWith("-") && word.length > 1 ? !low.includes(word.slice(1)) : low.includes(word)));
  };
}
