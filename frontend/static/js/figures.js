// Draws every [data-figure] from its JSON in the colors of the page, again when its data or the theme changes.

import { brushed } from "./brushing.js";
import { exportPlot, printPlot } from "./export.js";
import { plotlyFor } from "./plotly.js";
import { onPaper, themeOf, themed } from "./plot-theme.js";
import { drawable } from "./webgl.js";

const CONFIG = { displayModeBar: false, doubleClick: "reset", showTips: false };
// Pixels of CSS: as wide as a sheet of A4 within the margins that app.css gives it.
const PAPER = { width: 680, height: 280 };
const drawn = new WeakMap();

const TYPES = {
  i1: Int8Array, i2: Int16Array, i4: Int32Array, u1: Uint8Array, u2: Uint16Array, u4: Uint32Array, f4: Float32Array, f8: Float64Array,
};

// Numbers that came as the bytes of an array become one.
function decoded(key, value) {
  if (!value?.bdata) return value;
  return new TYPES[value.dtype](Uint8Array.from(atob(value.bdata), (letter) => letter.charCodeAt(0)).buffer);
}

// What goes wrong is said in a sentence, whatever the browser calls it.
async function fetchFigure(box) {
  const response = await fetch(box.dataset.figure, { headers: { Accept: "application/json" } }).catch((cause) => {
    throw new Error("The server did not answer.", { cause });
  });
  if (!response.ok) throw new Error(`The server answered ${response.status}.`);
  return JSON.parse(await response.text(), decoded);
}

// Draws into the box what it can show, and tells beside the caption what it cannot.
async function paint(box, theme = themeOf(box), size = {}) {
  const { figure: whole, plot } = drawn.get(box);
  const { figure, remark } = drawable(whole, box);
  const remarks = box.closest("figure")?.querySelector("[data-remark]");
  if (remarks) remarks.textContent = remark;
  if (!figure) {
    box.textContent = remark;
    return;
  }
  const { data, layout } = themed(figure, theme);
  // Where there is no mouse, a drag must scroll the page.
  if (matchMedia("(hover: none)").matches) layout.dragmode = false;
  const plotly = await plotlyFor(data);
  const { figure: newest, drawnBy = plotly } = drawn.get(box) ?? {};
  if (newest !== whole) return;
  if (drawnBy !== plotly) drawnBy.purge(plot);
  drawn.get(box).drawnBy = plotly;
  if (!plot.isConnected) box.replaceChildren(plot);
  await plotly.react(plot, data, { ...layout, ...size }, { ...CONFIG, scrollZoom: "wheel" in box.dataset });
  plot.removeAllListeners("plotly_click");
  plot.on("plotly_click", open);
  plot.removeAllListeners("plotly_restyle");
  plot.on("plotly_restyle", () => brushed(plot));
  plot.classList.toggle("opens", data.some(({ customdata }) => customdata?.flat?.()[0]?.href));
  plot.dispatchEvent(new CustomEvent("figure:painted", { bubbles: true, detail: plotly }));
}

// A box changes its width with the window, and where a choice puts one figure in place of two.
const sizes = new ResizeObserver((changed) => {
  if (matchMedia("print").matches) return;
  for (const { target } of changed) {
    const { plot, drawnBy } = drawn.get(target) ?? {};
    if (drawnBy && plot.isConnected) drawnBy.Plots.resize(plot);
  }
});

// Follows the link of a point that has one, to a report and nowhere else.
function open({ points }) {
  const href = points[0].customdata?.href;
  if (href?.startsWith("/embeddings/")) location.assign(href);
}

async function draw(box) {
  const wanted = `${box.dataset.figure} ${box.dataset.version}`;
  if (drawn.get(box)?.wanted === wanted) return;
  const plot = drawn.get(box)?.plot ?? document.createElement("div");
  drawn.set(box, { ...drawn.get(box), wanted, plot });
  sizes.observe(box);
  try {
    const figure = await fetchFigure(box);
    if (drawn.get(box).wanted !== wanted) return;
    drawn.set(box, { ...drawn.get(box), figure });
    await paint(box);
  } catch (error) {
    drawn.delete(box);
    box.textContent = `This figure could not be drawn. ${error.message} Reload the page to try again.`;
  }
}

const boxes = () => [...document.querySelectorAll("[data-figure]")];
// What a closed fold hides is drawn when it is opened.
const drawAll = () => boxes().filter((box) => !box.closest("details:not([open])")).forEach(draw);
const paintAll = (...how) => boxes().forEach((box) => drawn.get(box)?.figure && paint(box, ...how));
const repaintAll = () => paintAll();

document.addEventListener("htmx:after:swap", drawAll);
document.addEventListener("toggle", drawAll, true);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaintAll);
new MutationObserver(repaintAll).observe(document.documentElement, { attributeFilter: ["data-theme"] });

// A figure that is printed alone is drawn for that already.
const isAlone = () => document.documentElement.classList.contains("on-sheet");
addEventListener("beforeprint", () => isAlone() || paintAll(onPaper(), PAPER));
addEventListener("afterprint", () => isAlone() || requestAnimationFrame(repaintAll));

document.addEventListener("click", ({ target }) => {
  const button = target.closest("[data-export]");
  const whole = button?.closest("figure");
  const box = whole?.querySelector("[data-figure]");
  const figure = box && drawn.get(box)?.figure;
  const shown = figure && drawable(figure, box).figure;
  if (!shown) return;
  const title = whole.querySelector("h3").textContent;
  const plot = themed(shown, onPaper());
  if (button.dataset.export !== "pdf") return exportPlot(plot, button.dataset.export, box.dataset.name, title);
  printPlot(plot, button.dataset.sheet, box.dataset.name, title, whole.querySelector("figcaption").textContent.trim());
});

drawAll();
