// The map of an embedding's rows: draws every [data-map], and shows the figure that stands in where it cannot.

import { RowMap } from "./map/row-map.js";
import { fetchPoints } from "./map/points.js";
import { rowsOf } from "./map/selection.js";

const started = new WeakMap();

function isOffered() {
  return Boolean(document.createElement("canvas").getContext("webgl2"));
}

// Opens the figure of plotly, for a browser that cannot draw the map.
function standIn() {
  const fold = document.querySelector("#fold-projection");
  if (fold) fold.open = true;
}

async function start(figure) {
  started.set(figure, null);
  if (!isOffered()) return standIn();
  figure.hidden = false;
  try {
    const map = new RowMap(figure, await fetchPoints(figure.dataset.map));
    map.open();
    if (figure.dataset.mapRows) map.choose(map.points.of(rowsOf(figure.dataset.mapRows)));
    started.set(figure, map);
  } catch (error) {
    const wait = figure.querySelector("[data-map-wait]");
    wait.hidden = false;
    wait.textContent = `The map could not be drawn. ${error.message} Reload the page to try again.`;
    standIn();
  }
}

function startAll() {
  for (const figure of document.querySelectorAll("[data-map]")) if (!started.has(figure)) start(figure);
}

// What came may be another row to mark.
function follow() {
  startAll();
  for (const figure of document.querySelectorAll("[data-map]")) started.get(figure)?.mark();
}

document.addEventListener("htmx:after:swap", follow);
document.addEventListener("map:lost", standIn);
startAll();
