// Which request held which slot in the last steps, and how many tokens each step computed.

import { LABEL, palette, prepare } from "./canvas.js";
import { duration } from "./dom.js";

const ROW = 19; // height of a slot's row, with what is between two
const BARS = 52; // height of the bars below
const LEFT = 30;
const RIGHT = 92;
const ROWS_LEAST = 6;
const ROWS_MOST = 32;

/** Draws `state` (see live.js); returns what a pointer at (x, y) is over. */
export function drawGantt(canvas, state) {
  const width = canvas.clientWidth;
  const isNarrow = width < 480;
  const right = isNarrow ? 34 : RIGHT;
  const step = isNarrow ? 6 : 9;
  const columns = Math.max(8, Math.floor((width - LEFT - right) / step));
  const shown = state.steps.slice(-columns);
  const rows = rowCount(shown, state);
  const top = 2;
  const under = top + rows * ROW + 8;
  const { context } = prepare(canvas, under + BARS + 18);
  const colors = palette();
  const place = { x: (index) => width - right - (shown.length - index) * step, y: (slot) => top + slot * ROW, step };
  context.font = LABEL;
  context.textBaseline = "middle";
  grid(context, colors, { rows, width, right, ...place });
  shown.forEach((one, index) => column(context, colors, one, index, rows, place));
  holders(context, colors, state, rows, { width, right, isNarrow, ...place });
  bars(context, colors, shown, under, { width, right, ...place });
  const found = (x, y) => over(shown, rows, x, y, place, under);
  return found;
}

function rowCount(steps, state) {
  let most = 0;
  for (const one of steps) for (const [, slot] of one.entries) most = Math.max(most, slot + 1);
  return Math.min(ROWS_MOST, Math.max(most, Math.min(ROWS_LEAST, state.slots)));
}

function grid(context, colors, { rows, width, right, y }) {
  context.textAlign = "right";
  for (let slot = 0; slot < rows; slot += 1) {
    const middle = Math.round(y(slot) + ROW / 2) + 0.5;
    context.strokeStyle = colors.free;
    context.beginPath();
    context.moveTo(LEFT, middle);
    context.lineTo(width - right, middle);
    context.stroke();
    context.fillStyle = colors.soft;
    context.fillText(String(slot), LEFT - 8, middle);
  }
}

function column(context, colors, one, index, rows, { x, y, step }) {
  const left = x(index);
  for (const [request, slot, , , phase] of one.entries) {
    if (slot >= rows) continue;
    context.fillStyle = colors.request(request);
    // Reading is a block, writing a line without a gap.
    if (phase === 0) {
      context.beginPath();
      context.roundRect(left + 0.5, y(slot) + 2, step - 1, ROW - 4, 2);
      context.fill();
    } else context.fillRect(left, y(slot) + ROW / 2 - 2, step, 4);
  }
  context.strokeStyle = colors.alert;
  context.lineWidth = 2;
  for (const [, slot] of one.preempted) {
    if (slot >= rows) continue;
    const [cx, cy] = [left + step / 2, y(slot) + ROW / 2];
    context.beginPath();
    for (const side of [-1, 1]) {
      context.moveTo(cx - 3.5, cy - 3.5 * side);
      context.lineTo(cx + 3.5, cy + 3.5 * side);
    }
    context.stroke();
  }
  context.lineWidth = 1;
}

/** At the right end, who holds the slot now. */
function holders(context, colors, state, rows, { width, right, isNarrow, y }) {
  context.textAlign = "left";
  for (const { request, slot, known } of state.running) {
    if (slot >= rows) continue;
    const middle = y(slot) + ROW / 2 + 0.5;
    context.fillStyle = colors.ink;
    context.fillText(isNarrow ? `#${request}` : `#${request} · ${known} tok`, width - right + 6, middle);
  }
}

function bars(context, colors, steps, top, { width, right, x, step }) {
  const most = Math.max(8, ...steps.map((one) => one.rows));
  const height = (rows) => (rows / most) * BARS;
  const base = Math.round(top + BARS) + 0.5;
  steps.forEach((one, index) => {
    const decode = one.entries.filter((entry) => entry[4] === 1).length;
    const [whole, part] = [height(one.rows), height(Math.min(decode, one.rows))];
    context.fillStyle = colors.cached;
    context.fillRect(x(index) + 0.5, base - whole, step - 1, whole - part);
    context.fillStyle = colors.ink;
    context.fillRect(x(index) + 0.5, base - part, step - 1, part);
  });
  context.strokeStyle = colors.line;
  context.beginPath();
  context.moveTo(LEFT, base);
  context.lineTo(width - right, base);
  context.stroke();
  context.fillStyle = colors.soft;
  context.textAlign = "right";
  context.fillText(String(most), LEFT - 8, top + 5);
  context.fillText("0", LEFT - 8, base - 3);
  context.textAlign = "left";
  if (right >= RIGHT) {
    context.fillText("tokens", width - right + 6, top + BARS / 2 - 6);
    context.fillText("in a step", width - right + 6, top + BARS / 2 + 7);
  }
  if (steps.length === 0) return;
  context.fillText(`step ${steps[0].step}`, Math.max(LEFT, x(0)), base + 11);
  context.textAlign = "right";
  if (steps.length > 16) context.fillText(`${steps.at(-1).step}`, width - right, base + 11);
}

/** What a pointer at (x, y) is over, as a sentence. */
function over(steps, rows, x, y, place, under) {
  const index = Math.floor((x - place.x(0)) / place.step);
  const one = steps[index];
  if (!one || x < place.x(0)) return null;
  const slot = Math.floor((y - 2) / ROW);
  const entry = slot < rows && one.entries.find((candidate) => candidate[1] === slot);
  if (entry) {
    const [request, , start, count, phase] = entry;
    const what = phase === 1 ? `wrote its token ${start + 1}` : `read ${count} tokens from ${start + 1} on`;
    return `Step ${one.step}: request #${request} ${what}`;
  }
  if (y < under && slot < rows) return `Step ${one.step}: slot ${slot} was not used`;
  return `Step ${one.step}: ${one.rows} tokens of ${one.entries.length} requests in ${duration(one.took_ms)}`;
}

/** The picture in words, for who does not see it. */
export function ganttInWords(state) {
  const one = state.steps.at(-1);
  if (!one) return "Which request held which slot in the last steps: none yet";
  const reading = one.entries.filter((entry) => entry[4] === 0).length;
  const writing = one.entries.length - reading;
  return `Which request held which slot in the last steps. Step ${one.step}: ${reading} requests read a prompt, ${writing} wrote a token`;
}
