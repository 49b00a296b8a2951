// Elements from plain values. Text is always text: nothing here parses HTML.

/** `el("p", { class: "fine", onclick: f }, "text", child, ...)`; false and null leave an attribute or a child out. */
export function el(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== false));
  return element;
}

const SVG = "http://www.w3.org/2000/svg";

/** The same for a part of an SVG picture. */
export function svg(name, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

/** The element with an id. */
export const byId = (id) => document.getElementById(id);

/** Shows a sentence, or hides its place when there is none. */
export function tell(element, text) {
  element.textContent = text ?? "";
  element.hidden = !text;
}

/** A number as people read it: 12,345 or 3.4. */
export function number(value, digits = 0) {
  return value.toLocaleString("en", { maximumFractionDigits: digits, minimumFractionDigits: digits });
}

/** Milliseconds as 340 ms or 1.2 s. */
export function duration(ms) {
  if (ms >= 1000) return `${number(ms / 1000, ms < 10000 ? 1 : 0)} s`;
  return `${number(ms, ms < 10 ? 1 : 0)} ms`;
}
