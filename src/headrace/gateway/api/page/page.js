"use strict";
// A page to try the gateway, made from /openapi.json.  Nothing is loaded from elsewhere, and nothing is kept.

const make = (name, text, attributes = {}) => {
  const found = document.createElement(name);
  if (text !== undefined) found.textContent = text;
  for (const [key, value] of Object.entries(attributes)) found.setAttribute(key, value);
  return found;
};

const credentials = () => {
  const [user, password, token] = ["username", "password", "token"].map((id) => document.getElementById(id).value);
  if (token) return { Authorization: `Bearer ${token}` };
  if (!user) return {};
  const bytes = new TextEncoder().encode(`${user}:${password}`);
  return { Authorization: `Basic ${btoa(String.fromCharCode(...bytes))}` };
};

const resolve = (api, schema) => {
  while (schema && schema.$ref) schema = schema.$ref.split("/").slice(1).reduce((at, name) => at[name], api);
  return schema || {};
};

const example = (api, given, depth = 0) => {
  const schema = resolve(api, given);
  if (schema.examples) return schema.examples[0];
  if (schema.default !== undefined) return schema.default;
  if (schema.enum) return schema.enum[0];
  if (schema.anyOf) return example(api, schema.anyOf[0], depth);
  const type = Array.isArray(schema.type) ? schema.type[0] : schema.type;
  if (type === "object") {
    const required = new Set(schema.required || []);
    const wanted = Object.entries(schema.properties || {}).filter(([name]) => required.has(name));
    return depth > 4 ? {} : Object.fromEntries(wanted.map(([name, inner]) => [name, example(api, inner, depth + 1)]));
  }
  if (type === "array") return depth > 4 ? [] : [example(api, schema.items, depth + 1)];
  return { integer: 0, number: 0, boolean: false }[type] ?? "";
};

const field = (parameter) => {
  const row = make("label", undefined, { class: "field" });
  row.append(make("span", parameter.name + (parameter.required ? " *" : "")));
  const input = make("input");
  if (parameter.schema && parameter.schema.default !== undefined) input.placeholder = parameter.schema.default;
  const right = make("span");
  right.append(input, make("small", ` ${parameter.description || ""}`));
  row.append(right);
  return { row, parameter, value: () => input.value };
};

const send = async (method, path, fields, body, media, shown) => {
  let url = path;
  const query = new URLSearchParams();
  const headers = credentials();
  for (const { parameter, value } of fields) {
    if (parameter.in === "path") url = url.replace(`{${parameter.name}}`, encodeURIComponent(value()));
    else if (value() && parameter.in === "query") query.set(parameter.name, value());
    else if (value()) headers[parameter.name] = value();
  }
  if (body) headers["Content-Type"] = media;
  shown.textContent = "…";
  try {
    const full = url + (query.size ? `?${query}` : "");
    const answer = await fetch(full, { method, headers, body: body || undefined });
    const text = await answer.text();
    let pretty = text;
    if ((answer.headers.get("Content-Type") || "").includes("json") && !text.includes("\n")) {
      pretty = text ? JSON.stringify(JSON.parse(text), null, 2) : "";
    }
    shown.textContent = `${answer.status} ${answer.statusText}\n${pretty}`;
  } catch (error) {
    shown.textContent = String(error);
  }
};

const operation = (api, method, path, described) => {
  const box = make("details");
  const summary = make("summary");
  summary.append(make("b", method.toUpperCase()), make("code", path), make("span", `  ${described.summary}`));
  box.append(summary);
  if (described.description) box.append(make("p", described.description));
  const fields = described.parameters.map(field);
  fields.forEach(({ row }) => box.append(row));
  let area, media;
  if (described.requestBody) {
    media = Object.keys(described.requestBody.content)[0];
    const shape = described.requestBody.content[media].schema;
    area = make("textarea");
    area.value = JSON.stringify(example(api, shape), null, 2);
    box.append(area);
  }
  const button = make("button", "Send");
  const shown = make("pre");
  button.addEventListener("click", () => send(method.toUpperCase(), path, fields, area && area.value, media, shown));
  box.append(button, shown);
  return box;
};

const show = async () => {
  const api = await (await fetch("/openapi.json")).json();
  const groups = new Map();
  for (const [path, methods] of Object.entries(api.paths)) {
    for (const [method, described] of Object.entries(methods)) {
      const tag = described.tags[0];
      if (!groups.has(tag)) groups.set(tag, []);
      groups.get(tag).push(operation(api, method, path, described));
    }
  }
  const main = document.getElementById("operations");
  for (const [tag, boxes] of groups) main.append(make("h2", tag), ...boxes);
};

show();
