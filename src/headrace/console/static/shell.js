// What surrounds every page: where one can go, how the cluster is, who is here, and the keys.

import { send } from "./api.js";
import { fill, h } from "./dom.js";
import * as live from "./live.js";
import { showKeys } from "./parts.js";

const PLACES = [
  ["", "Overview", "o"],
  ["topics", "Topics", "t"],
  ["groups", "Groups", "g"],
  ["brokers", "Brokers", "b"],
  ["transactions", "Transactions", "x"],
  ["schedules", "Schedules", "s"],
  ["dead-letters", "Dead letters", "d"],
  ["security", "Security", "a"],
  ["pipelines", "Pipelines", "p"],
];

export function makeShell(session) {
  const links = new Map(PLACES.map(([path, name, key]) => [path, place(path, name, key)]));
  const health = h("a", { class: "health", href: "/console/", "aria-live": "polite" }, "…");
  const main = h("main", { id: "main", tabindex: "-1" });
  const element = h(
    "div",
    { class: "shell" },
    h("a", { class: "skip", href: "#main" }, "Skip to the page"),
    h(
      "header",
      { class: "side" },
      h("div", { class: "brand" }, h("span", { class: "mark", "aria-hidden": "true" }), "Headrace"),
      health,
      h("nav", { "aria-label": "Pages" }, [...links.values()]),
      h("div", { class: "foot" }, who(session), h("div", { class: "foot-tools" }, theme(), keys())),
    ),
    main,
  );
  live.watch((newest) => tell(health, newest));
  listenForKeys();
  return {
    element,
    main,
    mark(first) {
      for (const [path, anchor] of links) {
        if (path === first) anchor.setAttribute("aria-current", "page");
        else anchor.removeAttribute("aria-current");
      }
    },
  };
}

function place(path, name, key) {
  return h("a", { href: `/console/${path}`, "aria-keyshortcuts": `g ${key}` }, name);
}

function tell(health, newest) {
  health.dataset.state = newest === null ? "gone" : newest.is_well ? (newest.troubles.length ? "warning" : "well") : "serious";
  fill(health, newest === null ? "The console does not answer" : newest.is_well ? (newest.troubles.length ? "To look at" : "All is well") : "Needs somebody");
}

function who(session) {
  const name = session.how === "anonymous" ? "Nobody signs in here" : session.name;
  const leave =
    session.proof &&
    h("button", { class: "quiet", type: "button", onclick: signOut }, "Sign out");
  return h(
    "div",
    { class: "who" },
    name && h("span", { class: "name", title: session.bootstrap }, name),
    session.read_only && h("span", { class: "tag" }, "read-only"),
    leave,
  );
}

function theme() {
  const names = { light: "Light", dark: "Dark", system: "System" };
  const order = ["system", "light", "dark"];
  const now = () => document.documentElement.dataset.theme ?? "system";
  const button = h("button", { class: "quiet", type: "button", onclick: change }, `Theme: ${names[now()]}`);
  function change() {
    const next = order[(order.indexOf(now()) + 1) % order.length];
    if (next === "system") {
      delete document.documentElement.dataset.theme;
      localStorage.removeItem("headrace-theme");
    } else {
      document.documentElement.dataset.theme = next;
      localStorage.setItem("headrace-theme", next);
    }
    fill(button, `Theme: ${names[now()]}`);
  }
  return button;
}

function keys() {
  return h("button", { class: "quiet", type: "button", onclick: () => showKeys(PLACES) }, "Keys: ?");
}

function listenForKeys() {
  let before = "";
  addEventListener("keydown", (event) => {
    const typing = event.target.matches?.("input, textarea, select");
    if (event.key === "Escape" && typing) event.target.blur();
    if (typing || event.metaKey || event.ctrlKey || event.altKey || document.querySelector("dialog[open]")) return;
    const target = before === "g" && PLACES.find(([, , key]) => key === event.key);
    before = event.key;
    if (target) {
      before = "";
      document.querySelector(`nav a[href="/console/${target[0]}"]`)?.click();
    } else if (event.key === "/") {
      event.preventDefault();
      document.querySelector("main input[type=search]")?.focus();
    } else if (event.key === "?") showKeys(PLACES);
    else if (event.key === "j" || event.key === "k") step(event.key === "j" ? 1 : -1);
  });
}

// From the link of one row to that of the next.
function step(by) {
  const rows = [...document.querySelectorAll("main tbody a.row")];
  if (!rows.length) return;
  const at = rows.indexOf(document.activeElement);
  rows[Math.min(rows.length - 1, Math.max(0, at + by))]?.focus();
}

async function signOut() {
  // The server ends what a session watches; a stream that was let go of before is no error in the browser's log.
  live.end();
  await send("DELETE", "/console/api/session");
  location.assign("/console/");
}
