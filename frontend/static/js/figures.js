// Draws every [data-figure] from its JSON in the colours of the page, again when its data or the theme changes.

import { exportPlot } from "./export.js";
import { onPaper, themeOf, themed } from "./plot-theme.js";

const CONFIG = { displayModeBar: false, responsive: true, doubleClick: "reset", showTips: false };
// Pixels of CSS: as wide as a sheet of A4 within the margins that app.css gives it.
const PAPER = { width: 680, height: 280 };
const drawn = new WeakMap();

async function fetchFigure(box) {
  const response = await fetch(box.dataset.figure, { headers: { Accept: "application/json" } });
  if (!response.ok) throw new Error(`The server answered ${response.status}.`);
  return response.json();
}

function paint(box, theme = themeOf(box), size = {}) {
  const { figure, plot } = drawn.get(box);
  const { data, layout } = themed(figure, theme);
  // Where there is no mouse, a drag must scroll the page.
  if (matchMedia("(hover: none)").matches) layout.dragmode = false;
  return Plotly.react(plot, data, { ...layout, ...size }, CONFIG);
}

async function draw(box) {
  const wanted = `${box.dataset.figure} ${box.dataset.version}`;
  if (drawn.get(box)?.wanted === wanted) return;
  const plot = drawn.get(box)?.plot ?? document.createElement("div");
  drawn.set(box, { ...drawn.get(box), wanted, plot });
  try {
    const figure = await fetchFigure(box);
    if (drawn.get(box).wanted !== wanted) return;
    drawn.set(box, { wanted, plot, figure });
    if (!plot.isConnected) box.replaceChildren(plot);
    await paint(box);
  } catch (error) {
    drawn.delete(box);
    box.textContent = `This figure could not be drawn. ${error.message} Reload the page to try again.`;
  }
}

const boxes = () => document.querySelectorAll("[data-figure]");
const drawAll = () => boxes().forEach(draw);
const paintAll = (...how) => boxes().forEach((box) => drawn.get(box)?.figure && paint(box, ...how));
const repaintAll = () => paintAll();

document.addEventListener("htmx:after:swap", drawAll);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaintAll);
new MutationObserver(repaintAll).observe(document.documentElement, { attributeFilter: ["data-theme"] });

addEventListener("beforeprint", () => paintAll(onPaper(), PAPER));
addEventListener("afterprint", () => requestAnimationFrame(repaintAll));

document.addEventListener("click", ({ target }) => {
  const button = target.closest("[data-export]");
  const box = button?.closest("figure").querySelector("[data-figure]");
  const figure = box && drawn.get(box)?.figure;
  if (figure) exportPlot(themed(figure, onPaper()), button.dataset.export, box.dataset.name);
});

drawAll();
