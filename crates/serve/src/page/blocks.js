// The blocks of each cache group: free, cached, held by a request in its colour, or shared by several.

import { palette, prepare } from "./canvas.js";
import { el, number } from "./dom.js";

/** Marks of cells; from 4 on the holder's slot plus 4. */
const [FREE, CACHED, LEAVING, SHARED, HELD] = [0, 1, 2, 3, 4];

/** Rows of free blocks that are drawn after the last one in use. */
const FREE_ROWS = 2;

/** Rows that are drawn at least, where there are as many. */
const ROWS_LEAST = 9;

/** Draws all groups into `place`, whose canvases are made once. */
export function drawMaps(place, state) {
  while (place.children.length > state.groups.length) place.lastElementChild.remove();
  state.groups.forEach((group, index) => {
    const map = place.children[index] ?? place.appendChild(newMap());
    drawMap(map, group, state, state.groups.length > 1 ? index : null);
  });
}

function newMap() {
  return el("div", { class: "map" }, el("h3"), el("canvas", { role: "img" }), el("ul", { class: "legend" }));
}

function drawMap(map, group, state, index) {
  const [title, canvas, legend] = map.children;
  title.hidden = index === null;
  title.textContent = group.window ? `Layers that look back ${group.window} tokens` : "Layers that see all tokens";
  canvas.setAttribute("aria-label", inWords(group));
  const cells = unpack(group.cells);
  const hidden = picture(canvas, group, cells, state.running);
  const held = group.held + group.leaving;
  const items = [
    ["held", held, "held by one request, in its colour"],
    ["shared", group.shared, "shared by several"],
    ["cached", group.cached, "cached, to be found again"],
    ["free", group.free, "free"],
  ];
  legend.replaceChildren(...items.map(([name, count, text]) => el("li", {}, el("span", { class: `swatch ${name}` }), `${number(count)} ${text}`)));
  if (hidden > 0) legend.append(el("li", {}, `${number(hidden)} free ones are not drawn`));
  if (group.cell_blocks > 1) legend.append(el("li", {}, `a square is ${group.cell_blocks} blocks, and shows the busiest`));
}

/** Sizes of a square, largest first, and the height of a picture that shows all of them. */
const SIZES = [28, 22, 18, 15, 12, 10, 8, 7];
const HEIGHT_MOST = 220;

/** The largest squares of which `count` fit; without such the size that suits `used` of them. */
function layout(width, count, used) {
  const across = (size) => Math.max(1, Math.floor((width + gapOf(size)) / (size + gapOf(size))));
  const fits = (size) => Math.ceil(count / across(size)) * (size + gapOf(size)) <= HEIGHT_MOST;
  const size = SIZES.find(fits) ?? (used > 1500 ? 7 : used > 400 ? 10 : 15);
  return { size, gap: gapOf(size), across: across(size) };
}

const gapOf = (size) => (size > 8 ? 2 : 1);

/** The squares; how many free blocks are left out. */
function picture(canvas, group, cells, running) {
  const all = Math.ceil(group.total / group.cell_blocks);
  const { size, gap, across } = layout(canvas.clientWidth, all, cells.length);
  const down = Math.max(ROWS_LEAST, Math.ceil(cells.length / across) + FREE_ROWS);
  const shown = Math.min(all, across * down);
  const { context } = prepare(canvas, Math.ceil(shown / across) * (size + gap));
  const colors = palette();
  const owner = new Map(running.map(({ slot, request }) => [slot, request]));
  for (let cell = 0; cell < shown; cell += 1) {
    const x = (cell % across) * (size + gap);
    const y = Math.floor(cell / across) * (size + gap);
    square(context, colors, cells[cell] ?? FREE, { x, y, size, owner });
  }
  return (all - shown) * group.cell_blocks;
}

function square(context, colors, mark, { x, y, size, owner }) {
  if (mark === CACHED || mark === LEAVING) {
    context.strokeStyle = colors.cached;
    context.lineWidth = 1.5;
    context.setLineDash(mark === LEAVING ? [2, 2] : []);
    context.strokeRect(x + 0.75, y + 0.75, size - 1.5, size - 1.5);
    return;
  }
  if (mark === FREE) context.fillStyle = colors.free;
  else if (mark === SHARED) context.fillStyle = colors.ink;
  else context.fillStyle = owner.has(mark - HELD) ? colors.request(owner.get(mark - HELD)) : colors.soft;
  context.beginPath();
  context.roundRect(x, y, size, size, 2);
  context.fill();
}

/** `[mark, count, ...]` as one mark a cell. */
function unpack(runs) {
  const cells = [];
  for (let at = 0; at + 1 < runs.length; at += 2) for (let n = 0; n < runs[at + 1]; n += 1) cells.push(runs[at]);
  return cells;
}

function inWords(group) {
  return `Memory of ${number(group.total)} blocks: ${number(group.held)} held by one request, ${number(group.shared)} shared, ${number(group.cached)} cached, ${number(group.free)} free`;
}
