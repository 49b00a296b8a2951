// Markdown of an answer as DOM nodes. The text comes from a model and is trusted with nothing: every piece of it becomes a
// text node, links are http or https only, pictures are shown as links and never fetched, HTML stays text.
//
// A subset: headings, paragraphs, lists, quotes, fenced code, tables, rules; code, emphasis, strong, strike, links.

import { el } from "./dom.js";

/** Quotes and lists inside each other; deeper ones are plain text. */
const DEPTH_MAX = 8;

/** Nodes for `text`. */
export function render(text) {
  const fragment = document.createDocumentFragment();
  fragment.append(...blocks(text.replace(/\r\n?/g, "\n").split("\n"), 0));
  return fragment;
}

const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([^`\s]*)/;
const HEADING = /^ {0,3}(#{1,6})\s+(.*?)\s*#*$/;
const RULE = /^ {0,3}([-*_])(?:\s*\1){2,}\s*$/;
const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/;
const DIVIDER = /^\s*\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*$/;

function blocks(lines, depth) {
  const nodes = [];
  let at = 0;
  while (at < lines.length) {
    const line = lines[at];
    if (line.trim() === "") {
      at += 1;
      continue;
    }
    const [node, next] = block(lines, at, depth);
    nodes.push(node);
    at = next;
  }
  return nodes;
}

/** The block that begins at line `at`, and the line after it. */
function block(lines, at, depth) {
  const line = lines[at];
  if (FENCE.test(line)) return fence(lines, at);
  const heading = HEADING.exec(line);
  if (heading) return [el(`h${Math.min(heading[1].length + 2, 6)}`, {}, ...inline(heading[2])), at + 1];
  if (RULE.test(line)) return [el("hr"), at + 1];
  if (depth < DEPTH_MAX && /^ {0,3}>/.test(line)) return quote(lines, at, depth);
  if (depth < DEPTH_MAX && ITEM.test(line)) return list(lines, at, depth);
  if (line.includes("|") && DIVIDER.test(lines[at + 1] ?? "") && lines[at + 1].includes("-")) return table(lines, at);
  return paragraph(lines, at, depth);
}

function fence(lines, at) {
  const [, mark, language] = FENCE.exec(lines[at]);
  let end = at + 1;
  while (end < lines.length && !isClosing(lines[end], mark)) end += 1;
  const code = lines.slice(at + 1, end).join("\n");
  return [codeBlock(code, language), end + 1];
}

const isClosing = (line, mark) => {
  const text = line.trim();
  return text.length >= mark.length && text === mark[0].repeat(text.length);
};

function codeBlock(code, language) {
  const copy = el("button", { type: "button", class: "copy" }, "Copy");
  copy.addEventListener("click", async () => {
    copy.textContent = (await write(code)) ? "Copied" : "Cannot copy";
    setTimeout(() => (copy.textContent = "Copy"), 1500);
  });
  const head = el("div", { class: "code-head" }, el("span", {}, language || "text"), copy);
  return el("div", { class: "code" }, head, el("pre", { tabindex: "0" }, el("code", {}, code)));
}

/** Puts text on the clipboard; whether the browser let us. */
export async function write(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}

function quote(lines, at, depth) {
  let end = at;
  while (end < lines.length && /^ {0,3}>/.test(lines[end])) end += 1;
  const inner = lines.slice(at, end).map((line) => line.replace(/^ {0,3}> ?/, ""));
  return [el("blockquote", {}, ...blocks(inner, depth + 1)), end];
}

function list(lines, at, depth) {
  const [, indent, mark] = ITEM.exec(lines[at]);
  const isOrdered = /\d/.test(mark);
  const items = [];
  let end = at;
  while (end < lines.length) {
    const item = ITEM.exec(lines[end]);
    if (item && item[1].length <= indent.length + 1) {
      if (/\d/.test(item[2]) !== isOrdered) break;
      items.push([item[3]]);
    } else if (/^\s+\S/.test(lines[end]) && items.length > 0) {
      items.at(-1).push(lines[end].slice(Math.min(indent.length + 2, lines[end].search(/\S/))));
    } else if (lines[end].trim() === "" && /^\s+\S|^\s*([-*+]|\d+[.)])\s/.test(lines[end + 1] ?? "")) {
      items.at(-1).push("");
    } else break;
    end += 1;
  }
  const start = isOrdered && parseInt(mark, 10) !== 1 ? { start: parseInt(mark, 10) } : {};
  const children = items.map((item) => el("li", {}, ...tight(blocks(item, depth + 1))));
  return [el(isOrdered ? "ol" : "ul", start, ...children), end];
}

/** A first paragraph's content without the paragraph, so that short items stand close. */
function tight(nodes) {
  return nodes[0]?.tagName === "P" ? [...nodes[0].childNodes, ...nodes.slice(1)] : nodes;
}

function table(lines, at) {
  const cells = (line) => line.trim().replace(/^\||\|$/g, "").split("|").map((cell) => cell.trim());
  const row = (line, name) => el("tr", {}, ...cells(line).map((cell) => el(name, {}, ...inline(cell))));
  let end = at + 2;
  while (end < lines.length && lines[end].includes("|")) end += 1;
  const body = lines.slice(at + 2, end).map((line) => row(line, "td"));
  const element = el("table", {}, el("thead", {}, row(lines[at], "th")), el("tbody", {}, ...body));
  return [el("div", { class: "wide-table", tabindex: "0" }, element), end];
}

function paragraph(lines, at, depth) {
  let end = at + 1;
  const begins = (line) => FENCE.test(line) || HEADING.test(line) || RULE.test(line) || (depth < DEPTH_MAX && (/^ {0,3}>/.test(line) || ITEM.test(line)));
  while (end < lines.length && lines[end].trim() !== "" && !begins(lines[end])) end += 1;
  const nodes = [];
  for (const line of lines.slice(at, end)) {
    // Shown as they are: models indent code that they forget to fence.
    if (nodes.length > 0) nodes.push("\n");
    nodes.push(...inline(line.trimEnd()));
  }
  return [el("p", {}, ...nodes), end];
}

/** What may begin at one place of a line, tried in this order. */
const SPANS = [
  [/^\\([\\`*_{}[\]()#+\-.!|~<>])/, (m) => m[1]],
  [/^(`+)([^`]|[^`][^]{0,2000}?[^`])\1(?!`)/, (m) => el("code", {}, m[2].replace(/^ (.*) $/, "$1"))],
  [/^\*\*(?=\S)([^]{1,2000}?\S)\*\*/, (m, depth) => el("strong", {}, ...inline(m[1], depth + 1))],
  [/^__(?=\S)([^]{1,2000}?\S)__(?!\w)/, (m, depth) => el("strong", {}, ...inline(m[1], depth + 1))],
  [/^~~(?=\S)([^]{1,2000}?\S)~~/, (m, depth) => el("del", {}, ...inline(m[1], depth + 1))],
  [/^\*(?=[^\s*])([^*]{0,2000}[^\s*])\*/, (m, depth) => el("em", {}, ...inline(m[1], depth + 1))],
  [/^_(?=[^\s_])([^_]{0,2000}[^\s_])_(?!\w)/, (m, depth) => el("em", {}, ...inline(m[1], depth + 1))],
  [/^!?\[([^\]\n]{0,500})\]\(\s*<?((?:[^\s()<>]|\([^\s()<>]*\)){1,2000})>?(?:\s+"[^"\n]{0,500}")?\s*\)/, (m, depth) => link(m[1], m[2], depth)],
  [/^<?(https?:\/\/[^\s<>"'`]{1,2000}[^\s<>"'`.,;:!?)\]])>?/i, (m) => link("", m[1], 0)],
];

/** Where something may begin. */
const SPECIAL = /[\\`*_~![<]|https?:\/\//i;

function inline(text, depth = 0) {
  if (depth >= DEPTH_MAX) return [text];
  const nodes = [];
  let plain = "";
  let rest = text;
  while (rest !== "") {
    const next = rest.search(SPECIAL);
    if (next !== 0) {
      plain += next < 0 ? rest : rest.slice(0, next);
      rest = next < 0 ? "" : rest.slice(next);
      continue;
    }
    const found = span(rest, /\w$/.test(plain), depth);
    if (found === null) {
      plain += rest[0];
      rest = rest.slice(1);
      continue;
    }
    if (plain !== "") nodes.push(plain);
    plain = "";
    nodes.push(found.node);
    rest = rest.slice(found.length);
  }
  if (plain !== "") nodes.push(plain);
  return nodes;
}

function span(rest, isInWord, depth) {
  // snake_case is a word.
  if (rest[0] === "_" && isInWord) return null;
  for (const [pattern, make] of SPANS) {
    const match = pattern.exec(rest);
    if (match) return { node: make(match, depth), length: match[0].length };
  }
  return null;
}

/** A link, or its text where the address is not one of the web. */
function link(label, address, depth) {
  const children = label === "" ? [address] : inline(label, depth + 1);
  let url;
  try {
    url = new URL(address);
  } catch {
    return el("span", {}, ...children);
  }
  if (url.protocol !== "https:" && url.protocol !== "http:") return el("span", {}, ...children);
  return el("a", { href: url.href, rel: "noopener noreferrer", target: "_blank" }, ...children);
}
