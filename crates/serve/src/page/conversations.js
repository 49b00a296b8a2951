// The list of conversations: open, rename, delete, export.

import { byId, el } from "./dom.js";
import * as store from "./store.js";

const TITLE_MAX = 80;

/** Draws the list; `open(id)` shows one, `gone(id)` and `renamed(id, title)` are told of changes. */
export function conversationList({ current, open, gone, renamed }) {
  const list = byId("conversations");

  function draw() {
    list.replaceChildren(...store.all().map(row));
  }

  function row(conversation) {
    const isOpen = conversation.id === current();
    const title = el("button", {
      type: "button", class: "title", "aria-current": isOpen && "true", onclick: () => open(conversation.id),
    }, titleOf(conversation));
    const menu = el("details", { class: "menu" },
      el("summary", { "aria-label": `What to do with ${titleOf(conversation)}` }, "⋯"),
      el("div", { class: "menu-items" },
        action("Rename", () => rename(item, conversation)),
        action("Export as Markdown", () => download(conversation, "md")),
        action("Export as JSON", () => download(conversation, "json")),
        action("Delete", () => remove(conversation))));
    menu.addEventListener("focusout", (event) => {
      if (!menu.contains(event.relatedTarget)) menu.open = false;
    });
    menu.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || !menu.open) return;
      menu.open = false;
      menu.firstElementChild.focus();
      event.stopPropagation();
    });
    const item = el("li", {}, title, menu);
    return item;
  }

  function rename(item, conversation) {
    const field = el("input", { type: "text", maxlength: TITLE_MAX, "aria-label": "New name", value: titleOf(conversation) });
    const end = (keep) => {
      const changed = store.load(conversation.id);
      const name = field.value.trim();
      if (keep && name !== "" && changed) {
        store.save({ ...changed, title: name });
        renamed(changed.id, name);
      }
      draw();
    };
    field.addEventListener("keydown", (event) => {
      if (event.key === "Enter") end(true);
      if (event.key === "Escape") end(false);
    });
    field.addEventListener("blur", () => field.isConnected && end(true));
    item.replaceChildren(field);
    field.select();
  }

  function remove(conversation) {
    if (!confirm(`Delete “${titleOf(conversation)}”? It cannot be had again.`)) return;
    store.remove(conversation.id);
    gone(conversation.id);
    draw();
  }

  store.onChange(draw);
  return { draw };
}

const action = (label, onclick) => el("button", { type: "button", onclick }, label);

/** Its name, else how it begins. */
export function titleOf(conversation) {
  const first = conversation.messages[0]?.content.trim().replace(/\s+/g, " ") ?? "";
  return conversation.title || first.slice(0, TITLE_MAX) || "New conversation";
}

function download(conversation, kind) {
  const text = kind === "json" ? JSON.stringify(exported(conversation), null, 2) : markdown(conversation);
  const address = URL.createObjectURL(new Blob([text], { type: kind === "json" ? "application/json" : "text/markdown" }));
  const name = titleOf(conversation).replace(/[^\p{L}\p{N}]+/gu, "-").slice(0, 40).replace(/^-|-$/g, "") || "conversation";
  el("a", { href: address, download: `${name}.${kind}` }).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}

/** As a request would send it. */
function exported({ title, system, messages }) {
  const first = system ? [{ role: "system", content: system }] : [];
  return { title, messages: [...first, ...messages.map(({ role, content }) => ({ role, content }))] };
}

function markdown(conversation) {
  const { messages } = exported(conversation);
  const parts = messages.map(({ role, content }) => `## ${role}\n\n${content}\n`);
  return `# ${titleOf(conversation)}\n\n${parts.join("\n")}`;
}
