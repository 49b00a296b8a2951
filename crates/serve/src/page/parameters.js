// The parameters of an answer, as fields. An empty field leaves the server its own default.

import { byId, el } from "./dom.js";
import * as store from "./store.js";

const FIELDS = [
  { name: "temperature", label: "Temperature", min: 0, max: 2, step: 0.05, note: "0 always takes the likeliest token; higher is more varied." },
  { name: "top_p", label: "Top p", min: 0.01, max: 1, step: 0.01, note: "Only the likeliest tokens that together have this share." },
  { name: "top_k", label: "Top k", min: 0, max: 1000, step: 1, note: "Only so many tokens; 0 is all." },
  { name: "min_p", label: "Min p", min: 0, max: 1, step: 0.01, note: "Only tokens with this share of the likeliest one’s chance." },
  { name: "repetition_penalty", label: "Repetition penalty", min: 0.5, max: 2, step: 0.05, note: "Above 1 makes tokens that were there less likely." },
  { name: "max_tokens", label: "Most tokens", min: 1, max: 1048576, step: 1, note: "Where an answer is cut." },
  { name: "seed", label: "Seed", min: 0, max: Number.MAX_SAFE_INTEGER, step: 1, note: "The same seed gives the same answer again." },
];

/** Builds the panel. `system` is the conversation's own; `changed(text)` is told of another. */
export function parameterPanel({ changed }) {
  const values = store.parameters();
  const system = el("textarea", { id: "system", rows: "4", placeholder: "None", oninput: () => changed(system.value) });
  const clear = el("button", { type: "button", class: "quiet", onclick: reset }, "Back to the defaults");
  byId("parameters").append(
    el("h2", {}, "Parameters"),
    el("label", { for: "system" }, "System prompt"), system,
    el("p", { class: "note" }, "What the model is told before the conversation."),
    ...FIELDS.flatMap(field), clear,
  );

  function field({ name, label, min, max, step, note }) {
    const input = el("input", {
      id: name, type: "number", min, max, step: step < 1 ? "any" : step, inputmode: step < 1 ? "decimal" : "numeric",
      placeholder: "default", value: values[name] ?? null, "aria-describedby": `${name}-note`,
    });
    input.addEventListener("input", () => {
      if (input.value === "" || !input.validity.valid) delete values[name];
      else values[name] = input.valueAsNumber;
      input.toggleAttribute("aria-invalid", !input.validity.valid);
      store.saveParameters(values);
    });
    return [
      el("div", { class: "field" }, el("label", { for: name }, label), input),
      el("p", { class: "note", id: `${name}-note` }, note),
    ];
  }

  function reset() {
    for (const { name } of FIELDS) {
      delete values[name];
      byId(name).value = "";
      byId(name).removeAttribute("aria-invalid");
    }
    store.saveParameters(values);
  }

  return { values: () => ({ ...values }), showSystem: (text) => (system.value = text ?? "") };
}

/** What the server takes where a field is empty. */
export function showDefaults(defaults, context) {
  const texts = { ...defaults, max_tokens: context && `≤ ${context}` };
  for (const { name } of FIELDS) {
    const value = texts[name];
    if (value !== undefined && value !== null) byId(name).placeholder = String(value);
  }
}
