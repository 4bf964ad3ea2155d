// Elements from values.  Texts become text nodes, never markup: what a record says cannot become part of the page.

export function h(tag, attributes, ...children) {
  const element = document.createElement(tag);
  dress(element, attributes);
  element.append(...nodes(children));
  return element;
}

const SVG = "http://www.w3.org/2000/svg";

export function svg(tag, attributes, ...children) {
  const element = document.createElementNS(SVG, tag);
  dress(element, attributes);
  element.append(...nodes(children));
  return element;
}

function dress(element, attributes) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, each] of Object.entries(value)) element.style.setProperty(key, each);
    else if (name === "value" || name === "checked") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
}

function nodes(children) {
  return children
    .flat(Infinity)
    .filter((child) => child !== null && child !== undefined && child !== false)
    .map((child) => (child instanceof Node ? child : document.createTextNode(String(child))));
}

export function fill(element, ...children) {
  element.replaceChildren(...nodes(children));
  return element;
}

// A link within the console: the page changes without being loaded again.
export function link(path, ...children) {
  return h("a", { href: `/console${path}` }, ...children);
}

export function pathOf(...parts) {
  return `/${parts.map(encodeURIComponent).join("/")}`;
}
