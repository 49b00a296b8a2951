// Small plots of the last minute: each a figure, a line or dots over time, and what it means.

import { byId, duration, el, number, svg } from "./dom.js";

/** What is shown, and over how many milliseconds. */
export const SPAN_MS = 60000;
const BUCKET_MS = 500;
const [WIDTH, HEIGHT] = [240, 66];

/** Samples of the last minute: pairs of [time, value]. */
export class History {
  constructor() {
    this.samples = [];
  }

  add(at, value) {
    this.samples.push([at, value]);
  }

  /** Forgets what is older than the span before `now`. */
  trim(now) {
    const first = this.samples.findIndex(([at]) => at >= now - SPAN_MS);
    this.samples.splice(0, first < 0 ? this.samples.length : first);
  }

  last() {
    return this.samples.at(-1)?.[1] ?? null;
  }

  /** The value below which the share `q` of the samples lies. */
  quantile(q) {
    if (this.samples.length === 0) return null;
    const values = this.samples.map(([, value]) => value).sort((a, b) => a - b);
    return values[Math.min(values.length - 1, Math.floor(q * values.length))];
  }

  /** One value a bucket, made of its samples by `join`; null where there is none. */
  buckets(now, join) {
    const count = SPAN_MS / BUCKET_MS;
    const lists = Array.from({ length: count }, () => []);
    for (const [at, value] of this.samples) {
      const index = count - 1 - Math.floor((now - at) / BUCKET_MS);
      lists[Math.min(index, count - 1)]?.push(value);
    }
    return lists.map((list) => (list.length === 0 ? null : join(list)));
  }
}

const sum = (list) => list.reduce((a, b) => a + b, 0);
const mean = (list) => sum(list) / list.length;
const most = (list) => Math.max(...list);

/** Each plot: how its figure is said, what is drawn, what it means. */
const PLOTS = [
  {
    title: "Tokens a second",
    says: "Tokens written, all requests together. A fuller batch writes more of them for the same reading of the weights.",
    draw: ({ tokens }, now) => {
      const rates = zeros(tokens.buckets(now, (list) => (sum(list) * 1000) / BUCKET_MS));
      // The bucket that fills just now is not shown as a fall.
      const whole = smooth(rates.slice(0, -1), 4);
      return { value: number(whole.at(-1)), unit: "tokens/s", lines: [whole], rate: whole.at(-1) };
    },
  },
  {
    title: "Time to the first token",
    says: "From the moment a request came to its first word (TTFT): its wait in the queue and the reading of its prompt. A dot is a request.",
    draw: ({ first }, now) => ({ ...spread(first), dots: first.samples, now }),
  },
  {
    title: "Time between tokens",
    says: "The pause before each further word (ITL). It grows a little when more requests share a step, and jumps when a long prompt is read beside them.",
    draw: ({ between }, now) => ({ ...spread(between), lines: [between.buckets(now, mean), between.buckets(now, most)] }),
  },
  {
    title: "Batch and queue",
    says: "Requests that hold a slot (strong line) and that wait for one (pale line).",
    draw: ({ running, waiting, slots }, now) => ({
      value: number(running.last() ?? 0), unit: `of ${number(slots)} slots`,
      lines: [held(running, now), held(waiting, now)],
    }),
  },
  {
    title: "Preemptions",
    says: "How often a request gave its memory up to an older one and had to be computed again. Many of them: more memory or fewer slots would help.",
    draw: ({ preempted, totals }, now) => ({
      value: number(totals.preemptions), unit: "since the start", lines: [zeros(preempted.buckets(now, sum))],
    }),
  },
  {
    title: "Prompts found in the cache",
    says: "Share of a prompt that need not be computed, since an earlier request began alike (prefix hits). A dot is what began at one moment.",
    draw: ({ hits, totals }, now) => ({
      value: totals.prefix_queries ? number((totals.prefix_hits / totals.prefix_queries) * 100) : "–",
      unit: "% since the start", dots: hits.samples, now, top: 100,
    }),
  },
];

function spread(history) {
  const [half, high] = [history.quantile(0.5), history.quantile(0.95)];
  if (half === null) return { value: "–", unit: "" };
  return { value: duration(half), unit: `median · 95 %: ${duration(high)}`, inTime: true };
}

const zeros = (values) => values.map((value) => value ?? 0);

/** A count holds until the next one. */
function held(history, now) {
  let last = null;
  return history.buckets(now, (list) => list.at(-1)).map((value) => (last = value ?? last));
}

/** Means of up to `width` values that end at each. */
function smooth(values, width) {
  return values.map((_, index) => mean(values.slice(Math.max(0, index - width + 1), index + 1)));
}

/** Draws all plots into `place`; the tokens a second just now. */
export function drawPlots(place, state, now) {
  if (place.children.length === 0) place.append(...PLOTS.map(newPlot));
  let rate = 0;
  PLOTS.forEach((plot, index) => {
    const drawn = plot.draw(state, now);
    rate = drawn.rate ?? rate;
    const [, value, top, picture] = place.children[index].children;
    value.replaceChildren(drawn.value, " ", el("small", {}, drawn.unit));
    picture.setAttribute("aria-label", `${plot.title}: ${drawn.value} ${drawn.unit}`);
    const scale = drawn.top ?? niceTop(drawn);
    top.replaceChildren(el("span", {}, drawn.inTime ? duration(scale) : number(scale)), el("span", {}, "last minute"));
    picture.replaceChildren(...content(drawn, scale));
  });
  return rate;
}

function newPlot({ title, says }) {
  return el("section", { class: "plot" },
    el("h3", {}, title), el("p", { class: "value" }), el("p", { class: "top", "aria-hidden": "true" }),
    svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img" }),
    el("p", { class: "note" }, says));
}

function content({ lines = [], dots = [], now }, top) {
  const y = (value) => HEIGHT - 2 - (Math.min(value, top) / top) * (HEIGHT - 4);
  const nodes = [svg("line", { class: "axis", x1: 0, x2: WIDTH, y1: HEIGHT - 1, y2: HEIGHT - 1 })];
  nodes.push(svg("line", { class: "axis", x1: 0, x2: WIDTH, y1: y(top), y2: y(top), "stroke-dasharray": "2 3" }));
  // The last line first, so that the strong one lies on top.
  lines.forEach((line, index) => nodes.push(...path(line, y, index)));
  for (const [at, value] of dots) {
    const x = WIDTH * (1 - (now - at) / SPAN_MS);
    if (x >= 0) nodes.push(svg("ellipse", { class: "dot", cx: x.toFixed(1), cy: y(value).toFixed(1), rx: 1.6, ry: 2.2 }));
  }
  return nodes;
}

/** A line with gaps where there is nothing. */
function path(values, y, index) {
  const dx = WIDTH / (values.length - 1);
  let [text, isDown] = ["", false];
  values.forEach((value, at) => {
    if (value === null) isDown = false;
    else {
      text += `${isDown ? "L" : "M"}${(at * dx).toFixed(1)} ${y(value).toFixed(1)}`;
      // A lonely value is a short dash.
      if (!isDown && (values[at + 1] ?? null) === null) text += `h${dx.toFixed(1)}`;
      isDown = true;
    }
  });
  return text === "" ? [] : [svg("path", { class: index === 0 ? "line" : "line second", d: text })];
}

/** The end of the scale: 1, 2, 5, 10, ... */
function niceTop({ lines = [], dots = [] }) {
  const value = Math.max(1, ...lines.flat(), ...dots.map(([, sample]) => sample));
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((factor) => factor * power).find((top) => top >= value);
}

/** The row of figures on top. */
export function drawFigures(state, rate) {
  const free = state.groups[0];
  const used = free ? ((free.held + free.shared + free.leaving) / free.total) * 100 : 0;
  const figures = [
    ["requests running", number(state.running.length), `of ${number(state.slots)}`],
    ["waiting", number(state.waiting.count), ""],
    ["tokens a second", number(rate), ""],
    ["time of a step", state.steps.length > 0 ? duration(state.steps.at(-1).took_ms) : "–", ""],
    ["blocks in use", number(used, used > 0 && used < 10 ? 1 : 0), "%"],
    ["steps so far", number(state.totals.steps), ""],
  ];
  byId("figures").replaceChildren(...figures.map(([name, value, unit]) => el("div", {}, el("dt", {}, name), el("dd", {}, value, " ", el("small", {}, unit)))));
}
