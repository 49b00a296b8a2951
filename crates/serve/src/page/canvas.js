// What the pictures share: a canvas at the screen's own resolution, and colours that follow light and dark.

/** Hues, and the step between those of consecutive requests: twelve requests in a row have colours that differ, and so have
 *  those that follow each other in eight slots. The next twelve are a little darker. */
const [HUES, STRIDE, SHADE] = [12, 5, 0.07];

/** Sizes a canvas to `height` CSS pixels and clears it; its context and width. */
export function prepare(canvas, height) {
  const scale = devicePixelRatio || 1;
  const width = canvas.clientWidth;
  const [w, h] = [Math.round(width * scale), Math.round(height * scale)];
  if (canvas.width !== w || canvas.height !== h) {
    canvas.width = w;
    canvas.height = h;
    canvas.style.height = `${height}px`;
  }
  const context = canvas.getContext("2d");
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, width, height);
  return { context, width };
}

/** The colours in force. */
export function palette() {
  const style = getComputedStyle(document.documentElement);
  const value = (name) => style.getPropertyValue(name).trim();
  const [light, chroma] = [value("--hue-light"), value("--hue-chroma")];
  return {
    ink: value("--ink"), soft: value("--soft"), line: value("--line"), free: value("--free"),
    cached: value("--cached"), alert: value("--alert"), accent: value("--accent"),
    request: (number) => {
      const hue = (((number - 1) * STRIDE * 360) / HUES + 250) % 360;
      const shade = Math.floor((number - 1) / HUES) % 2 === 1 ? SHADE : 0;
      return `oklch(${(light - shade).toFixed(3)} ${chroma} ${hue.toFixed(0)})`;
    },
  };
}

/** Type of small labels. */
export const LABEL = "11px system-ui, 'Segoe UI', Roboto, 'Liberation Sans', sans-serif";
