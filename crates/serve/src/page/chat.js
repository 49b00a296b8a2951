// The chat: a thread of messages, a composer, an answer that streams in.

import * as api from "./api.js";
import { conversationList } from "./conversations.js";
import { byId, duration, el, number, tell } from "./dom.js";
import { render, write } from "./markdown.js";
import { parameterPanel } from "./parameters.js";
import * as store from "./store.js";

const SUGGESTIONS = [
  "Explain what a hash map is, with a short example in Python.",
  "Write four lines about the sea in winter.",
  "What is the difference between weather and climate?",
];

/** Builds the chat and opens the conversation that was open last. */
export function chat() {
  let conversation = store.load(store.opened()) ?? store.create();
  let answering = null; // { controller, conversation, reply } while an answer comes
  let editing = null; // index of the message that the composer replaces
  const deleted = new Set();
  const articles = new WeakMap(); // message -> its element, which stays the same so that it is read out once

  const [messages, scroll, field] = [byId("messages"), byId("scroll"), byId("prompt")];
  const panel = parameterPanel({ changed: changeSystem });
  const list = conversationList({ current: () => conversation.id, open: (id) => show(store.load(id)), gone: forget, renamed });

  function changeSystem(text) {
    conversation.system = text;
    if (conversation.messages.length > 0) keep(conversation);
  }

  function show(next) {
    conversation = next ?? store.create();
    editing = null;
    store.open(conversation.id);
    panel.showSystem(conversation.system);
    tell(byId("problem"), null);
    draw();
    list.draw();
    scroll.scrollTop = scroll.scrollHeight;
  }

  function renamed(id, title) {
    for (const one of [conversation, answering?.conversation]) if (one?.id === id) one.title = title;
  }

  function forget(id) {
    deleted.add(id);
    if (answering?.conversation.id === id) stop();
    if (conversation.id === id) show(null);
  }

  function keep(changed) {
    if (deleted.has(changed.id)) return;
    changed.updated = Date.now();
    const problem = store.save(changed);
    if (problem) tell(byId("problem"), problem);
  }

  function draw() {
    const isBusy = answering !== null;
    const coming = answering?.conversation === conversation ? [answering.reply] : [];
    const shown = [...conversation.messages, ...coming];
    byId("welcome").hidden = shown.length > 0;
    messages.setAttribute("aria-busy", String(isBusy));
    shown.forEach((one, index) => {
      const wanted = article(one);
      if (messages.children[index] !== wanted) messages.insertBefore(wanted, messages.children[index] ?? null);
      wanted.lastElementChild.replaceChildren(...(coming.includes(one) ? [] : actions(one, index)));
    });
    while (messages.children.length > shown.length) messages.lastElementChild.remove();
    byId("send").hidden = isBusy;
    byId("stop").hidden = !isBusy;
  }

  /** The element of a message: its text, and a place for what can be done with it. */
  function article(one) {
    const isUser = one.role === "user";
    if (!articles.has(one)) {
      const body = el("div", { class: "body" }, isUser ? one.content : render(one.content));
      const place = el("div", { class: "actions", "aria-live": "off" });
      articles.set(one, el("article", { class: `message ${one.role}`, "aria-label": isUser ? "You" : "Answer" }, body, place));
    }
    return articles.get(one);
  }

  function actions(one, index) {
    const isUser = one.role === "user";
    const isIdle = answering === null;
    const isLast = index === conversation.messages.length - 1;
    const offered = [
      button("Copy", async ({ target }) => (target.textContent = (await write(one.content)) ? "Copied" : "Cannot copy")),
      isUser && isIdle && button("Edit", () => edit(index)),
      isUser && isIdle && isLast && button("Try again", answer),
      !isUser && isIdle && isLast && button("Regenerate", regenerate),
      one.note && el("span", { class: "note" }, one.note),
    ];
    return offered.filter(Boolean);
  }

  function edit(index) {
    editing = index;
    field.value = conversation.messages[index].content;
    grow();
    field.focus();
  }

  function regenerate() {
    if (conversation.messages.at(-1)?.role === "assistant") conversation.messages.pop();
    answer();
  }

  function send(text) {
    if (text.trim() === "" || answering) return;
    if (editing !== null) conversation.messages.length = editing;
    editing = null;
    conversation.messages.push({ role: "user", content: text });
    field.value = "";
    grow();
    answer();
  }

  function stop() {
    answering?.controller.abort();
  }

  /** Asks for an answer to the conversation as it is, and shows it as it comes. */
  async function answer() {
    const asked = conversation;
    const reply = { role: "assistant", content: "", note: "" };
    answering = { controller: new AbortController(), conversation: asked, reply };
    tell(byId("problem"), null);
    keep(asked);
    list.draw();
    draw();
    scroll.scrollTop = scroll.scrollHeight;
    byId("status").textContent = "The answer is on its way";
    const body = article(reply).firstElementChild;
    body.classList.add("waiting");
    const painter = paintInto(body, reply);
    try {
      reply.note = await stream(asked, reply, painter.wanted, answering.controller.signal);
    } catch (error) {
      reply.note = error.name === "AbortError" ? "stopped" : "broken off";
      if (error.name !== "AbortError") tell(byId("problem"), error.message);
    }
    painter.last();
    // What came is kept, however it ended; nothing is not.
    if (reply.content !== "") asked.messages.push(reply);
    answering = null;
    keep(asked);
    byId("status").textContent = reply.content === "" ? "There is no answer" : `The answer is complete: ${reply.note}`;
    draw();
    list.draw();
  }

  /** Paints a growing text, at most once a picture; who reads the end of the thread goes on to see it. */
  function paintInto(body, reply) {
    let request = 0;
    const paint = () => {
      request = 0;
      const isAtEnd = scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < 80;
      body.classList.remove("waiting");
      body.replaceChildren(render(reply.content));
      if (isAtEnd) scroll.scrollTop = scroll.scrollHeight;
    };
    return {
      wanted: () => (request ||= requestAnimationFrame(paint)),
      last: () => {
        cancelAnimationFrame(request);
        paint();
      },
    };
  }

  async function stream(asked, reply, update, signal) {
    const began = performance.now();
    let first = null;
    let [usage, reason] = [null, null];
    const system = asked.system.trim() === "" ? [] : [{ role: "system", content: asked.system }];
    const turns = asked.messages.map(({ role, content }) => ({ role, content }));
    const body = { messages: [...system, ...turns], ...panel.values(), stream: true, stream_options: { include_usage: true } };
    const response = await api.request("/v1/chat/completions", { body, signal });
    const sampling = response.headers.get("x-ucuz-sampling");
    for await (const data of api.events(response)) {
      if (data === "[DONE]") return note({ began, first, usage, reason, sampling });
      const event = JSON.parse(data);
      if (event.error) throw new api.ApiError(`The answer broke off: ${event.error.message}.`, 0);
      const [choice] = event.choices;
      const text = choice?.delta?.content ?? "";
      if (text !== "") {
        first ??= performance.now();
        reply.content += text;
        update();
      }
      reason = choice?.finish_reason ?? reason;
      usage = event.usage ?? usage;
    }
    throw new api.ApiError("The answer broke off: the server closed the connection.", 0);
  }

  byId("composer").addEventListener("submit", (event) => {
    event.preventDefault();
    send(field.value);
  });
  field.addEventListener("input", grow);
  field.addEventListener("keydown", (event) => {
    // An input method uses Enter to choose a word.
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    send(field.value);
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && answering && !event.defaultPrevented && !byId("key-dialog").open) stop();
  });
  byId("stop").addEventListener("click", () => {
    stop();
    field.focus();
  });
  byId("new").addEventListener("click", () => {
    show(null);
    field.focus();
  });
  byId("suggestions").append(...SUGGESTIONS.map((text) => el("li", {}, button(text, () => send(text)))));

  function grow() {
    field.style.height = "auto";
    field.style.height = `${Math.min(field.scrollHeight + 2, innerHeight / 3)}px`;
  }

  show(conversation);
}

const button = (label, onclick) => el("button", { type: "button", onclick }, label);

/** What an answer took, in a line. */
function note({ began, first, usage, reason, sampling }) {
  const parts = [];
  if (usage) parts.push(`${usage.completion_tokens} tokens`);
  if (first !== null) parts.push(`first after ${duration(first - began)}`);
  const seconds = (performance.now() - (first ?? began)) / 1000;
  if (usage?.completion_tokens > 1 && seconds > 0) parts.push(`${number((usage.completion_tokens - 1) / seconds)} tokens/s`);
  const seed = /"seed":(\d+)/.exec(sampling ?? "");
  if (seed && !/"temperature":0(?:\.0)?,/.test(sampling)) parts.push(`seed ${seed[1]}`);
  if (reason === "length") parts.push("cut at the most tokens");
  return parts.join(" · ");
}
