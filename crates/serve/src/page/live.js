// The live view: takes the engine's events while somebody looks, and draws them.

import * as api from "./api.js";
import { drawMaps } from "./blocks.js";
import { palette } from "./canvas.js";
import { byId, duration, el, number, svg, tell } from "./dom.js";
import { sendExamples } from "./examples.js";
import { drawGantt, ganttInWords } from "./gantt.js";
import { drawFigures, drawPlots, History } from "./plots.js";

/** Steps that are remembered; no screen shows more. */
const STEPS_MAX = 400;

/** Waits before the next try when the stream has ended, ms. */
const AGAIN_MS = [500, 1000, 2000, 5000];

/** Why there is no more to see. */
const ENDS = {
  draining: "The server is shutting down: it finishes what it has begun.",
  stopped: "The server has shut down.",
  dead: "The engine has died. The server’s log tells why.",
};

/** Time between two pictures while nothing happens: plots move on. */
const IDLE_MS = 1000;

const HISTORIES = ["tokens", "first", "between", "running", "waiting", "preempted", "hits"];

/** Waiting requests that have a row; the others are counted. */
const WAITING_SHOWN = 5;

/** What is known of the engine. */
function newState() {
  return {
    steps: [], running: [], waiting: { count: 0, first: [] }, groups: [], slots: 0, totals: null,
    history: Object.fromEntries(HISTORIES.map((name) => [name, new History()])),
    // The engine's time of the last event, and ours.
    at: 0, heard: 0,
  };
}

/** Adds an event to what is known. */
function take(state, event) {
  const { history, totals: before } = state;
  for (const step of event.steps) {
    for (const [, , , , , first, next] of step.entries) {
      if (first !== null) history.first.add(step.at_ms, first);
      if (next !== null) history.between.add(step.at_ms, next);
    }
    history.running.add(step.at_ms, step.running);
    history.waiting.add(step.at_ms, step.waiting);
    history.preempted.add(step.at_ms, step.preempted.length);
  }
  const { totals, at_ms: at } = event;
  history.running.add(at, event.running.length);
  history.waiting.add(at, event.waiting.count);
  if (before) {
    history.tokens.add(at, totals.generated_tokens - before.generated_tokens);
    const asked = totals.prefix_queries - before.prefix_queries;
    if (asked > 0) history.hits.add(at, (100 * (totals.prefix_hits - before.prefix_hits)) / asked);
  }
  const steps = [...state.steps, ...event.steps].slice(-STEPS_MAX);
  const { running, waiting, groups, slots } = event;
  Object.assign(state, { steps, running, waiting, groups, slots, totals, at, heard: performance.now() });
}

/** The engine's time, now. */
const engineNow = (state) => state.at + performance.now() - state.heard;

/** Builds the view; it looks only while it is shown. */
export function live() {
  let state = newState();
  let [isShown, isPaused, controller, picture, timer] = [false, false, null, 0, 0];
  let over = () => null;
  const calm = matchMedia("(prefers-reduced-motion: reduce)");

  function look() {
    const isWanted = isShown && !isPaused && document.visibilityState === "visible";
    if (isWanted && !controller) {
      controller = new AbortController();
      follow(controller.signal);
    } else if (!isWanted && controller) {
      controller.abort();
      controller = null;
    }
    clearInterval(timer);
    if (isWanted) timer = setInterval(redraw, IDLE_MS);
  }

  /** Takes events until told not to, over ends of the stream. */
  async function follow(signal) {
    for (let tries = 0; !signal.aborted; ) {
      let wait = AGAIN_MS[Math.min(tries, AGAIN_MS.length - 1)];
      try {
        const response = await api.request("/v1/engine/live", { signal });
        for await (const data of api.events(response)) {
          tries = 0;
          hear(JSON.parse(data));
        }
      } catch (error) {
        if (signal.aborted) return;
        tell(byId("live-problem"), error.message);
        if (error.status === 401) return;
        if (error.retryAfter) wait = error.retryAfter * 1000;
      }
      tries += 1;
      await new Promise((resolve) => setTimeout(resolve, wait));
    }
  }

  function hear(event) {
    if (event.end) {
      tell(byId("live-problem"), ENDS[event.end] ?? ENDS.dead);
      return;
    }
    tell(byId("live-problem"), null);
    // A server that was started anew counts from the beginning.
    if (state.totals && event.totals.steps < state.totals.steps) state = newState();
    const isFirst = state.totals === null;
    take(state, event);
    // Who wants no motion sees a picture a second.
    if (isFirst || !calm.matches) redraw();
  }

  function redraw() {
    if (isShown) picture ||= requestAnimationFrame(draw);
  }

  function draw() {
    picture = 0;
    if (!state.totals) return;
    const now = engineNow(state);
    for (const history of Object.values(state.history)) history.trim(now);
    over = drawGantt(byId("gantt"), state);
    byId("gantt").setAttribute("aria-label", ganttInWords(state));
    drawMaps(byId("maps"), state);
    drawRequests(byId("requests"), state);
    const rate = drawPlots(byId("plots"), { ...state.history, slots: state.slots, totals: state.totals }, now);
    drawFigures(state, rate);
  }

  byId("pause").addEventListener("click", () => {
    isPaused = !isPaused;
    byId("pause").setAttribute("aria-pressed", String(isPaused));
    byId("pause").textContent = isPaused ? "Go on" : "Pause";
    look();
  });
  byId("examples").addEventListener("click", async () => {
    byId("examples").disabled = true;
    await sendExamples((problem) => tell(byId("live-problem"), problem));
    byId("examples").disabled = false;
  });
  byId("gantt").addEventListener("pointermove", (event) => {
    byId("gantt-says").textContent = over(event.offsetX, event.offsetY) ?? "";
  });
  byId("gantt").addEventListener("pointerleave", () => (byId("gantt-says").textContent = ""));
  document.addEventListener("visibilitychange", look);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  addEventListener("resize", redraw);

  return {
    show: (shown) => {
      isShown = shown;
      look();
      redraw();
    },
    redraw,
  };
}

/** Rows of requests: those that hold a slot, then those that wait. */
function drawRequests(body, { running, waiting }) {
  const colors = palette();
  const rows = running.map(({ request, slot, prompt, known, computed, cached, preemptions }) =>
    row(request, colors, [slot, number(prompt), number(cached), number(Math.max(0, known - prompt)), progress(computed, known)], preemptions));
  const first = waiting.first.slice(0, WAITING_SHOWN);
  const queue = first.map(({ request, tokens, waited_ms, preemptions }) =>
    row(request, colors, ["waits", number(tokens), "", "", `for ${duration(waited_ms)}`], preemptions));
  const more = waiting.count - first.length;
  const rest = more > 0 ? [line(`and ${number(more)} more that wait`)] : [];
  const all = [...rows, ...queue, ...rest];
  body.replaceChildren(...(all.length > 0 ? all : [line("Nobody just now. Ask something in the chat, or send the example requests.")]));
}

function row(request, colors, cells, preemptions) {
  const swatch = svg("svg", { class: "swatch", viewBox: "0 0 1 1", "aria-hidden": "true" }, svg("rect", { width: 1, height: 1, fill: colors.request(request) }));
  const times = preemptions > 0 ? ` (preempted ${preemptions}×)` : "";
  return el("tr", {}, el("td", {}, swatch, `#${request}${times}`), ...cells.map((cell) => el("td", {}, cell)));
}

const line = (text) => el("tr", {}, el("td", { class: "nobody", colspan: "6" }, text));

/** How much of what is known is in the cache, as a number and a bar. */
function progress(computed, known) {
  const share = known > 0 ? (100 * computed) / known : 0;
  const bar = svg("svg", { class: "progress", viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("rect", { width: share.toFixed(1), height: 10 }));
  return el("span", {}, number(computed), bar);
}
