// The gateway, asked with the credentials of whoever looks at the page.

export class Problem extends Error {
  constructor(document) {
    super(document.detail);
    this.code = document.code;
    this.status = document.status;
    this.advice = document.advice;
  }
}

let proof = "page";

export function useProof(value) {
  proof = value ?? "page";
}

export const get = (path) => send("GET", path);

export async function send(method, path, body) {
  const headers = {};
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (method !== "GET") headers["X-Headrace-Console"] = proof;
  let answer;
  try {
    answer = await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
  } catch {
    throw new Problem({ code: "no_answer", status: 0, detail: "The console does not answer.", advice: "Look whether it still runs." });
  }
  const text = await answer.text();
  const found = text ? parse(text) : null;
  if (answer.ok) return found;
  if (answer.status === 401) dispatchEvent(new CustomEvent("signed-out"));
  throw new Problem(found?.detail ? found : { code: "failed", status: answer.status, detail: `The answer is ${answer.status}.`, advice: "" });
}

function parse(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

export function query(values) {
  const given = Object.entries(values).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return given.length ? `?${new URLSearchParams(given)}` : "";
}

// A table that comes as rows with the names of its columns, as objects.
export function objects({ columns, rows }) {
  return rows.map((row) => Object.fromEntries(columns.map((name, index) => [name, row[index]])));
}
