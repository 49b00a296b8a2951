// Requests to this server: the key, errors as sentences, streams of events.

const KEY = "ucuz.key";

/** An answer that is an error; `message` is for people. */
export class ApiError extends Error {
  constructor(message, status, retryAfter) {
    super(message);
    this.status = status;
    this.retryAfter = retryAfter;
  }
}

/** Asks a person for a key, which was `refused` or not there; resolves to whether there is a new one. Set by the page. */
export const gate = { ask: async (_refused) => false };

let asking = null;

export function setKey(key) {
  if (key) sessionStorage.setItem(KEY, key);
  else sessionStorage.removeItem(KEY);
}

/** The response to a request that went well. Asks for a key when the server wants one. */
export async function request(path, options = {}) {
  const key = sessionStorage.getItem(KEY);
  const response = await send(path, options, key);
  if (response.status === 401) {
    // Several requests may fail at once; one question is enough.
    asking ??= gate.ask(Boolean(key)).finally(() => (asking = null));
    if (await asking) return request(path, options);
  }
  if (!response.ok) throw await failure(response);
  return response;
}

async function send(path, { body, signal }, key) {
  const headers = {};
  if (key) headers.authorization = `Bearer ${key}`;
  if (body) headers["content-type"] = "application/json";
  const method = body ? "POST" : "GET";
  try {
    return await fetch(path, { method, headers, body: body && JSON.stringify(body), signal, cache: "no-store" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError("The server does not answer. Is it still running?", 0);
  }
}

async function failure(response) {
  const retryAfter = Number(response.headers.get("retry-after")) || null;
  let said = "";
  try {
    said = (await response.json()).error.message;
  } catch {
    // Whoever answered does not speak the protocol; the status must do.
  }
  return new ApiError(sentence(response.status, said, retryAfter), response.status, retryAfter);
}

/** What a person should know of an error. */
function sentence(status, said, retryAfter) {
  const again = retryAfter ? ` Try again in ${retryAfter} s.` : "";
  if (status === 401) return "This server needs a key, and has none from you. Send again to enter one.";
  if (status === 429) return `The server has too much to do just now.${again} It says: ${said || "too many requests"}.`;
  if (status === 503) return `The server takes no requests at the moment.${again} It says: ${said || "unavailable"}.`;
  return said ? `The server refused: ${said}.` : `The server answered with status ${status}.`;
}

/** The data of each event of a stream, as it comes. */
export async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const parts = (rest + value).split("\n\n");
      rest = parts.pop();
      for (const part of parts) if (part.startsWith("data: ")) yield part.slice(6);
    }
  } finally {
    await reader.cancel().catch(() => {});
  }
}
