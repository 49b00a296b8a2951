// Eight requests of different lengths that come one after the other: something to look at.

import * as api from "./api.js";

const SHARED = "You are a careful guide through a small museum of everyday things. For every object that a visitor asks about you tell "
  + "where it came from, who used it first, what it was made of, how it changed, and one thing that most people do not know. "
  + "You speak plainly, in short sentences, and you never make a claim that you are not sure of. The visitor points at an object: ";

const LONG = "The lighthouse keeper wrote down the weather four times a day, and the ships that passed, and the birds. ".repeat(16);

/** What is sent after how many milliseconds. Few requests of several prompts each: a browser has six connections to a server,
 *  and the live view and the chat want theirs. */
const WAVES = [
  { after: 0, prompts: ["Once upon a time", "The best way to learn is"], max_tokens: 300 },
  { after: 500, prompts: [`${SHARED}the umbrella.`], max_tokens: 320 },
  { after: 1100, prompts: [`${SHARED}the pencil.`, `${SHARED}the kettle.`], max_tokens: 260 },
  { after: 2200, prompts: [`${LONG}One night`, "In a hole in the ground", "Water boils when"], max_tokens: 160 },
];

/** Sends them all; `failed` is told of the first that is refused. */
export async function sendExamples(failed) {
  const waves = WAVES.map(async ({ after, prompts, max_tokens }) => {
    await new Promise((resolve) => setTimeout(resolve, after));
    const body = { prompt: prompts, max_tokens, temperature: 0.8, ignore_eos: true, stream: true };
    const response = await api.request("/v1/completions", { body });
    // The text is not shown; the engine is.
    for await (const _ of api.events(response));
  });
  const outcomes = await Promise.allSettled(waves);
  const refused = outcomes.find(({ status }) => status === "rejected");
  if (refused) failed(refused.reason.message);
}
