// Pieces that many pages have: headings, tabs, facts, what went wrong, and asking before something changes.

import { send } from "./api.js";
import { fill, h } from "./dom.js";

export function heading(title, { under, actions } = {}) {
  return h(
    "div",
    { class: "heading" },
    h("div", {}, h("h1", {}, title), under && h("p", { class: "muted" }, under)),
    actions && h("div", { class: "actions" }, actions),
  );
}

export const waiting = () => h("p", { class: "waiting", role: "status" }, "Asking the brokers…");

export function problem(error, again) {
  if (!(error instanceof Error) && !error.message) throw error;
  if (error instanceof Error && !error.code) console.error(error);
  return h(
    "div",
    { class: "problem", role: "alert" },
    h("p", {}, error.message, " ", h("span", { class: "muted" }, error.advice ?? "")),
    again && h("button", { type: "button", onclick: again }, "Try again"),
  );
}

export const nothing = (text) => h("p", { class: "nothing" }, text);

export function tabs(base, names, chosen) {
  return h(
    "nav",
    { class: "tabs", "aria-label": "Sections" },
    names.map(([path, name]) =>
      h("a", { href: `/console${base}${path ? `/${path}` : ""}`, "aria-current": path === chosen ? "page" : null }, name),
    ),
  );
}

export function facts(pairs) {
  return h(
    "dl",
    { class: "facts" },
    pairs.filter(Boolean).map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))),
  );
}

export const tag = (text, kind) => h("span", { class: kind ? `tag ${kind}` : "tag" }, text);

export function field(label, input, hint) {
  return h("label", { class: "field" }, h("span", {}, label), input, hint && h("small", { class: "muted" }, hint));
}

export function choice(name, options, chosen) {
  return h(
    "select",
    { name },
    options.map(([value, text]) => h("option", { value, selected: value === chosen }, text)),
  );
}

export function search(label, value, onchange) {
  return h("input", { type: "search", placeholder: label, "aria-label": label, value: value ?? "", oninput: (event) => onchange(event.target.value) });
}

export function command(text) {
  const copy = h("button", { class: "quiet", type: "button" }, "Copy");
  copy.addEventListener("click", () => navigator.clipboard?.writeText(text).then(() => fill(copy, "Copied")));
  return h("div", { class: "command" }, h("code", {}, text), copy);
}

export function modal(title, content, buttons) {
  const dialog = h("dialog", { "aria-label": title, onclose: () => dialog.remove() });
  const form = h(
    "form",
    { method: "dialog" },
    h("h2", {}, title),
    content,
    h("div", { class: "buttons" }, h("button", { type: "button", class: "quiet", onclick: () => dialog.close() }, "Close"), buttons),
  );
  dialog.append(form);
  document.body.append(dialog);
  dialog.showModal();
  return { dialog, form };
}

// Nothing changes without this: what will happen, the command that does the same, and a button that says what it does.
export function ask({ title, what, cli, act, done, danger = false, session }) {
  const trouble = h("div", {});
  const button = h("button", { type: "submit", class: danger ? "danger" : "primary" }, title);
  const refused = session?.read_only ? h("p", { class: "muted" }, "This console is read-only: use the command.") : null;
  const shown = h("div", { class: "preview" }, what);
  const line = h("div", {}, h("h3", {}, "By command"), command(cli));
  const { dialog, form } = modal(title, [shown, line, trouble, refused], refused ? null : button);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    button.disabled = true;
    try {
      const answer = await act();
      dialog.close();
      await done?.(answer);
    } catch (error) {
      fill(trouble, problem(error));
    }
    button.disabled = false;
  });
  return dialog;
}

export const change = (method, path, body) => () => send(method, path, body);

export function announce(text) {
  const line = h("p", { class: "announcement", role: "status" }, text);
  document.body.append(line);
  setTimeout(() => line.remove(), 5000);
}

export function showKeys(places) {
  const rows = [
    ["/", "to the filter of the page"],
    ["j, k", "to the next or the previous row; Enter opens it"],
    ["Escape", "out of a field, or closes this"],
    ...places.map(([, name, key]) => [`g ${key}`, `to ${name}`]),
  ];
  modal("Keys", h("dl", { class: "keys" }, rows.map(([key, what]) => h("div", {}, h("dt", {}, h("kbd", {}, key)), h("dd", {}, what)))));
}
