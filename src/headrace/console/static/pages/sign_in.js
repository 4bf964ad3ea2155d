// Signing in: a password or a token goes to the brokers, which decide; the browser keeps a cookie that scripts cannot read.

import { send } from "../api.js";
import { fill, h } from "../dom.js";
import { field, problem } from "../parts.js";

export async function show({ element, query, session }) {
  const name = h("input", { name: "username", autocomplete: "username", autofocus: true });
  const word = h("input", { name: "password", type: "password", autocomplete: "current-password" });
  const token = h("textarea", { name: "token", "aria-label": "Token", spellcheck: "false" });
  const trouble = h("div", {});
  const button = h("button", { type: "submit", class: "primary" }, "Sign in");
  const form = h(
    "form",
    { class: "sign-in", onsubmit: enter },
    h("h1", {}, "Sign in"),
    session.has_provider && h("a", { class: "button", href: `/console/api/session/provider?${new URLSearchParams({ to: query.get("to") ?? "/" })}`, rel: "external" }, "Sign in at your provider"),
    h("p", { class: "muted" }, "With the name and password that you have at the brokers. What you do here, you do as yourself."),
    field("Name", name),
    field("Password", word),
    h("details", {}, h("summary", {}, "With a token instead"), field("Token", token, "One that the brokers take, of your identity provider.")),
    trouble,
    button,
  );
  async function enter(event) {
    event.preventDefault();
    button.disabled = true;
    try {
      await send("POST", "/console/api/session", token.value ? { token: token.value } : { username: name.value, password: word.value });
      const to = query.get("to") ?? "/";
      location.assign(`/console${to.startsWith("/") && !to.startsWith("//") && !to.startsWith("/sign-in") ? to : "/"}`);
    } catch (error) {
      fill(trouble, problem(error));
      button.disabled = false;
    }
  }
  fill(element, form);
}
