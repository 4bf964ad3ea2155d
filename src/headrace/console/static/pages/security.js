// Who may do what, by which rule; who can sign in; and what was done.

import { get, query as queryOf } from "../api.js";
import { fill, h } from "../dom.js";
import { announce, ask, change, choice, field, heading, modal, nothing, problem, search, tabs, tag } from "../parts.js";
import { table, wordsIn } from "../table.js";
import { ago, moment, quoted } from "../words.js";

const SECTIONS = [
  ["", "Rules"],
  ["?section=why", "Who may, and why"],
  ["?section=users", "Users"],
  ["?section=audit", "Audit trail"],
];

export async function show(context) {
  const { element, query } = context;
  const section = query.get("section") ?? "";
  const body = h("div", { class: "page" });
  const bar = tabs("/security", SECTIONS.map(([path, name]) => [path, name]), section ? `?section=${section}` : "");
  for (const anchor of bar.children) anchor.setAttribute("href", anchor.getAttribute("href").replace("/?", "?"));
  fill(element, heading("Security"), bar, body);
  try {
    await { "": rules, why, users, audit }[section](body, context);
  } catch (error) {
    fill(body, problem(error));
  }
}

async function rules(body, { session, reload, query }) {
  const { acls } = await get("/acls");
  const words = (row) => `${row.permission} ${row.principal} ${row.operation} ${row.resource_type} ${row.resource_name} ${row.pattern} ${row.host}`;
  const grid = table({
    label: "Rules",
    sortBy: "principal",
    empty: "No rule is like that.",
    columns: [
      { name: "permission", title: "Rule", cell: (row) => tag(row.permission, row.permission === "deny" ? "serious" : "well"), sort: (row) => row.permission },
      { name: "principal", title: "Who", cell: (row) => row.principal, sort: (row) => row.principal },
      { name: "operation", title: "What", cell: (row) => row.operation.replaceAll("_", " "), sort: (row) => row.operation },
      { name: "resource", title: "With", cell: (row) => [h("span", { class: "muted" }, `${row.resource_type.replaceAll("_", " ")} `), row.resource_name, row.pattern === "prefixed" && "…"], sort: (row) => `${row.resource_type} ${row.resource_name}` },
      { name: "host", title: "From", class: "wide-only", cell: (row) => row.host, sort: (row) => row.host },
      { name: "remove", title: "", cell: (row) => session.rights.includes("alter") && h("button", { type: "button", class: "quiet", "aria-label": `Remove the rule of ${row.principal}`, onclick: () => remove(row, session, reload) }, "Remove") },
    ],
  });
  grid.update(acls);
  const start = query.get("filter") ?? "";
  const apply = (text) => grid.filter((row) => wordsIn(text)(words(row)));
  if (start) apply(start);
  const add = session.rights.includes("alter") && h("button", { type: "button", class: "primary", onclick: () => allow(session, reload) }, "New rule");
  fill(body, h("div", { class: "bar" }, search("Search rules: a user, a topic, deny …", start, apply), h("span", { class: "end" }, add)), grid.element);
}

const OPTIONS = { read: "--read", write: "--write", create: "--create", delete: "--delete", alter: "--alter", describe: "--describe", all: "--all" };
const named = (rule) => (rule.resource_type === "cluster" ? "cluster" : `${{ topic: "", group: "group:", transactional_id: "transaction:" }[rule.resource_type] ?? ""}${rule.resource_name}${rule.pattern === "prefixed" ? "*" : ""}`);
const lineOf = (verb, rule) => `headrace acl ${verb} --user ${quoted(rule.principal.replace(/^User:/, ""))} ${OPTIONS[rule.operation] ?? `--${rule.operation.replaceAll("_", "-")}`} ${quoted(named(rule))}`;

function remove(rule, session, reload) {
  const { permission, principal, operation, resource_type, resource_name, pattern, host } = rule;
  ask({
    title: "Remove rule",
    danger: true,
    what: h("p", {}, `It is no longer ${permission === "deny" ? "denied" : "allowed"} by a rule that ${principal} may ${operation.replaceAll("_", " ")} ${resource_type} ${resource_name}. It holds at once.`),
    cli: lineOf("remove", rule),
    act: change("DELETE", `/acls${queryOf({ permission, principal, operation, resource_type, resource_name, pattern, host })}`),
    done: () => (announce("The rule is removed."), reload()),
    session,
  });
}

function allow(session, reload) {
  const permission = choice("permission", [["allow", "May"], ["deny", "May not"]], "allow");
  const principal = h("input", { required: true, placeholder: "User:ann", pattern: "\\w+:.+", autofocus: true });
  const operation = choice("operation", Object.keys(OPTIONS).map((each) => [each, each]), "read");
  const kind = choice("kind", [["topic", "topic"], ["group", "group"], ["transactional_id", "transactional id"], ["cluster", "cluster"]], "topic");
  const name = h("input", { placeholder: "orders, or orders-*" });
  const next = h("button", { type: "submit", class: "primary" }, "Show what will happen");
  const { dialog, form } = modal("New rule", h("div", { class: "fields" }, field("Who", principal), field("", permission), field("What", operation), field("With", kind), field("Name", name, "A * at the end is any that begin so.")), next);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const prefixed = name.value.length > 1 && name.value.endsWith("*");
    const rule = { permission: permission.value, principal: principal.value, operation: operation.value, resource_type: kind.value, resource_name: kind.value === "cluster" ? "kafka-cluster" : prefixed ? name.value.slice(0, -1) : name.value || "*", pattern: prefixed ? "prefixed" : "literal", host: "*" };
    dialog.close();
    ask({
      title: "Make rule",
      what: h("p", {}, `${rule.principal} ${rule.permission === "allow" ? "may" : "may not"} ${rule.operation} ${rule.resource_type.replaceAll("_", " ")} ${named(rule)}, from anywhere. It holds at once.`),
      cli: lineOf(rule.permission, rule),
      act: change("POST", "/acls", { acls: [rule] }),
      done: () => (announce("The rule is there."), reload()),
      session,
    });
  });
}

async function why(body, { query, go }) {
  const who = h("input", { placeholder: "ann", "aria-label": "Who", value: query.get("who") ?? "", required: true });
  const kind = choice("kind", [["topic", "topic"], ["group", "group"], ["transaction", "transactional id"], ["cluster", "cluster"]], query.get("kind") ?? "topic");
  const name = h("input", { placeholder: "orders", "aria-label": "Name", value: query.get("name") ?? "" });
  kind.setAttribute("aria-label", "Of what");
  const answer = h("div", {});
  const look = (event) => {
    event.preventDefault();
    go(`/security${queryOf({ section: "why", who: who.value, kind: kind.value, name: name.value })}`);
  };
  fill(body, h("form", { class: "bar", onsubmit: look }, "What may", who, "do with", kind, name, h("button", { type: "submit", class: "primary" }, "Look")), answer);
  if (!who.value) return;
  const found = await get(`/console/api/access${queryOf({ who: who.value, kind: kind.value, name: name.value || (kind.value === "cluster" ? "" : "*") })}`);
  if (!found.authorizer) {
    fill(answer, nothing("This cluster has no authorizer: everybody may do everything."));
    return;
  }
  const grid = table({
    label: "Decisions",
    columns: [
      { name: "operation", title: "What", cell: (row) => row.operation.replaceAll("_", " ") },
      { name: "allowed", title: "May", cell: (row) => tag(row.allowed ? "yes" : "no", row.allowed ? "well" : "serious") },
      { name: "why", title: "Why", class: "wrap", cell: (row) => row.why },
    ],
  });
  grid.update(found.decisions);
  fill(answer, grid.element);
}

async function users(body, { session, reload }) {
  const { users: found } = await get("/users?limit=1000");
  const grid = table({
    label: "Users",
    sortBy: "name",
    empty: "Nobody has a password here.",
    columns: [
      { name: "name", title: "User", cell: (row) => h("strong", {}, row.name), sort: (row) => row.name },
      { name: "mechanisms", title: "Signs in by", cell: (row) => Object.keys(row.mechanisms).map((each) => [tag(each), " "]) },
      { name: "why", title: "", cell: (row) => h("a", { href: `/console/security${queryOf({ filter: `User:${row.name}` })}` }, "rules") },
      { name: "acts", title: "", cell: (row) => session.rights.includes("alter") && [h("button", { type: "button", class: "quiet", onclick: () => password(row.name, session, reload) }, "Password"), h("button", { type: "button", class: "quiet", onclick: () => dismiss(row.name, session, reload) }, "Remove")] },
    ],
  });
  grid.update(found);
  const add = session.rights.includes("alter") && h("button", { type: "button", class: "primary", onclick: () => password(null, session, reload) }, "New user");
  fill(body, h("div", { class: "bar" }, search("Filter users", "", (text) => grid.filter((row) => wordsIn(text)(row.name))), h("span", { class: "end" }, add)), grid.element);
}

function password(known, session, reload) {
  const name = h("input", { required: true, value: known ?? "", autocomplete: "off", ...(known ? { readonly: true } : {}) });
  const word = h("input", { type: "password", required: true, autocomplete: "new-password" });
  const next = h("button", { type: "submit", class: "primary" }, "Show what will happen");
  const { dialog, form } = modal(known ? `Password of ${known}` : "New user", h("div", { class: "fields" }, field("Name", name), field("Password", word)), next);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    dialog.close();
    ask({
      title: known ? "Set password" : "Add user",
      what: h("p", {}, `${name.value} signs in with this password from now on${known ? "; the old one is of no use any more" : ", and may do what rules allow"}.`),
      cli: `headrace user ${known ? "password" : "add"} ${quoted(name.value)}`,
      act: change("PUT", `/users/${encodeURIComponent(name.value)}`, { password: word.value }),
      done: () => (announce("It is done."), reload()),
      session,
    });
  });
}

function dismiss(name, session, reload) {
  ask({ title: "Remove user", danger: true, what: h("p", {}, `${name} can sign in no more; rules about ${name} stay.`), cli: `headrace user remove ${quoted(name)}`, act: change("DELETE", `/users/${encodeURIComponent(name)}`), done: () => (announce(`${name} is removed.`), reload()), session });
}

async function audit(body, { query }) {
  const where = query.get("where") ?? "";
  let found;
  try {
    found = await get(`/console/api/topics/__audit/messages${queryOf({ limit: 200, where })}`);
  } catch (error) {
    fill(body, error.status === 404 ? nothing("There is no audit trail; headrace.audit.enable makes the brokers keep one.") : problem(error));
    return;
  }
  const grid = table({
    label: "Audit trail",
    sortBy: "time",
    descending: true,
    empty: "Nothing is in the trail yet.",
    columns: [
      { name: "time", title: "When", cell: (row) => h("span", { title: moment(row.time) }, ago(row.time)), sort: (row) => row.time },
      { name: "who", title: "Who", cell: (row) => row.who, sort: (row) => row.who },
      { name: "action", title: "What", cell: (row) => row.action, sort: (row) => row.action },
      { name: "on", title: "On", cell: (row) => row.on, sort: (row) => row.on },
      { name: "outcome", title: "Outcome", cell: (row) => tag(row.outcome, { done: "well", denied: "serious", failed: "warning" }[row.outcome]), sort: (row) => row.outcome },
      { name: "details", title: "Details", class: "wide-only", cell: (row) => h("span", { title: row.details }, row.details) },
    ],
  });
  grid.update(found.records.map((record) => record.value).filter((event) => event?.class_uid).map(told));
  fill(body, h("div", { class: "bar" }, search("Filter the last 200: a user, an action, denied …", "", (text) => grid.filter((row) => wordsIn(text)(`${row.who} ${row.action} ${row.on} ${row.outcome} ${row.details}`)))), grid.element);
}

const SIGN_IN = 3002;

function told(event) {
  const signs = event.class_uid === SIGN_IN;
  const denied = signs || String(event.status_code).endsWith("AUTHORIZATION_FAILED");
  const changes = (event.unmapped?.changes ?? []).map((each) => `${each.name}: ${each.before ?? "–"} → ${each.after ?? "–"}`);
  return {
    time: event.time,
    who: (signs ? event.user : event.actor?.user)?.uid ?? "–",
    action: signs ? "SignIn" : event.api?.operation,
    on: (event.resources ?? []).map((each) => `${each.type.toLowerCase()} ${each.name}`).join(", "),
    outcome: event.status_id === 1 ? "done" : denied ? "denied" : "failed",
    details: [event.status_id === 1 ? "" : event.status_code, event.status_detail, ...changes].filter(Boolean).join("; "),
  };
}
