// Conversations and parameters, kept in this browser. Several tabs may write; each conversation has an entry of its own.

const PREFIX = "ucuz.conversation.";
const PARAMETERS = "ucuz.parameters";
const OPEN = "ucuz.open";

/** A conversation that is not kept before it has a message. */
export function create(system = "") {
  const id = `${Date.now().toString(36)}${Math.random().toString(36).slice(2, 8)}`;
  return { id, title: "", system, messages: [], updated: Date.now() };
}

/** All conversations, the last used first. */
export function all() {
  const keys = Object.keys(localStorage).filter((key) => key.startsWith(PREFIX));
  return keys.map((key) => read(key)).filter(isConversation).sort((a, b) => b.updated - a.updated);
}

export function load(id) {
  const found = id && read(PREFIX + id);
  return isConversation(found) ? found : null;
}

/** Keeps a conversation; a sentence when the browser has no room for it. */
export function save(conversation) {
  return write(PREFIX + conversation.id, conversation);
}

export function remove(id) {
  localStorage.removeItem(PREFIX + id);
}

export const parameters = () => read(PARAMETERS) ?? {};
export const saveParameters = (values) => write(PARAMETERS, values);

/** The conversation that this tab has open, over reloads. */
export const opened = () => sessionStorage.getItem(OPEN);
export const open = (id) => sessionStorage.setItem(OPEN, id);

/** Calls back when another tab changed a conversation. */
export function onChange(callback) {
  addEventListener("storage", (event) => {
    if (event.key === null || event.key.startsWith(PREFIX)) callback();
  });
}

function read(key) {
  try {
    return JSON.parse(localStorage.getItem(key));
  } catch {
    return null;
  }
}

function write(key, value) {
  try {
    localStorage.setItem(key, JSON.stringify(value));
    return null;
  } catch {
    return "This browser has no room left for conversations. Delete or export some.";
  }
}

/** What another version, or a hand, may have left is not trusted. */
function isConversation(value) {
  const isMessage = (m) => typeof m?.content === "string" && (m.role === "user" || m.role === "assistant");
  return Array.isArray(value?.messages) && value.messages.every(isMessage) && typeof value.id === "string";
}
