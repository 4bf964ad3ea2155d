// From an address to a page.  Every page is a module of its own, loaded when somebody goes there.

import { get, useProof } from "./api.js";
import { fill, h } from "./dom.js";
import * as live from "./live.js";
import { problem, waiting } from "./parts.js";
import { makeShell } from "./shell.js";

const PAGES = {
  "": () => import("./pages/overview.js"),
  topics: () => import("./pages/topics.js"),
  "topics/*": () => import("./pages/topic.js"),
  groups: () => import("./pages/groups.js"),
  "groups/*": () => import("./pages/group.js"),
  brokers: () => import("./pages/brokers.js"),
  transactions: () => import("./pages/transactions.js"),
  schedules: () => import("./pages/schedules.js"),
  "dead-letters": () => import("./pages/letters.js"),
  "dead-letters/*": () => import("./pages/letters.js"),
  security: () => import("./pages/security.js"),
  pipelines: () => import("./pages/pipelines.js"),
  "sign-in": () => import("./pages/sign_in.js"),
};

let shell;
let session;
let leave = [];
let visit = 0;

function place() {
  const [first, ...rest] = location.pathname.replace(/^\/console\/?/, "").split("/").map(decodeURIComponent);
  return { first, rest: rest.filter(Boolean), query: new URLSearchParams(location.search) };
}

export function go(path, { replace = false } = {}) {
  history[replace ? "replaceState" : "pushState"](null, "", `/console${path}`);
  show();
}

async function show() {
  const number = (visit += 1);
  const { first, rest, query } = place();
  for (const end of leave.splice(0)) end();
  const load = PAGES[rest.length ? `${first}/*` : first];
  shell.mark(first);
  if (!load) {
    fill(shell.main, problem({ message: "There is no such page.", advice: "Choose one on the left." }));
    return;
  }
  const slow = setTimeout(() => number === visit && fill(shell.main, waiting()), 150);
  try {
    const page = await load();
    if (number !== visit) return;
    const element = h("div", { class: "page" });
    await page.show({ element, rest, query, session, go, reload: show, onLeave: (end) => leave.push(end) });
    if (number === visit) fill(shell.main, element);
  } catch (error) {
    if (number === visit) fill(shell.main, problem(error, show));
  } finally {
    clearTimeout(slow);
  }
  document.title = `${[first || "overview", ...rest].join(" · ")} · Headrace`;
}

async function begin() {
  session = await get("/console/api/session");
  useProof(session.proof);
  shell = makeShell(session);
  document.body.replaceChildren(shell.element);
  if (session.name === null && !session.problem && session.can_sign_in) {
    if (place().first !== "sign-in") go(`/sign-in?to=${encodeURIComponent(location.pathname.slice(8) + location.search)}`, { replace: true });
    else show();
    return;
  }
  live.begin();
  show();
}

addEventListener("popstate", show);
addEventListener("signed-out", () => session?.name !== null && session?.can_sign_in && location.reload());
addEventListener("click", (event) => {
  const anchor = event.target.closest?.("a[href^='/console']");
  if (!anchor || event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || anchor.download || anchor.rel === "external") return;
  event.preventDefault();
  go(anchor.getAttribute("href").slice(8));
  scrollTo(0, 0);
});

begin().catch((error) => document.body.replaceChildren(problem(error, () => location.reload())));
