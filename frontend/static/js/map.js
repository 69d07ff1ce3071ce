// The map of an embedding's rows. A lasso fills the form below the map; a click searches for its row.

const NAMED_ROWS = 8;
const RINGS = "rings";
let drawn = null;

// Writes ascending rows as runs: 0-99 120 130-180.
function formatRuns(rows) {
  const runs = [];
  for (let i = 0; i < rows.length; i++) {
    const first = rows[i];
    while (rows[i + 1] === rows[i] + 1) i++;
    runs.push(rows[i] === first ? `${first}` : `${first}-${rows[i]}`);
  }
  return runs.join(" ");
}

function parseRuns(runs) {
  const rows = new Set();
  // A typed number may be huge.
  const end = drawn.plot.data.flatMap(({ customdata }) => [...(customdata ?? [])]).reduce((a, b) => Math.max(a, b), 0);
  for (const run of runs.split(" ").filter(Boolean)) {
    const [first, last = first] = run.split("-").map(Number);
    for (let row = first; row <= Math.min(last, end); row++) rows.add(row);
  }
  return rows;
}

const field = () => drawn.map.querySelector("[data-map-selection] [name=rows]");

function select(points) {
  if (!field()) return;
  const sorted = points.filter(({ customdata }) => customdata !== undefined).sort((a, b) => a.customdata - b.customdata);
  field().value = formatRuns(sorted.map(({ customdata }) => customdata));
  const named = sorted.slice(0, NAMED_ROWS).map(({ text, customdata }) => text ?? `row ${customdata}`);
  const more = sorted.length - named.length;
  const count = `${sorted.length.toLocaleString("en")} ${sorted.length === 1 ? "row" : "rows"} selected`;
  const sentence = `${count}${named.length ? ": " : ""}${named.join(", ")}${more ? ` and ${more.toLocaleString("en")} more` : ""}.`;
  // The names of points are escaped for plotly.
  const words = new DOMParser().parseFromString(sentence, "text/html").body.textContent;
  drawn.map.querySelector("[data-map-selected]").textContent = words;
}

// Returns the indices of the points of these rows, by trace.
function findPoints(rows) {
  return drawn.plot.data.map(({ customdata }) => [...(customdata ?? [])].flatMap((row, i) => (rows.has(row) ? [i] : [])));
}

// Selects the rows in the form, which were typed or came with the URL.
function highlight() {
  const rows = parseRuns(field()?.value ?? "");
  return drawn.plotly.restyle(drawn.plot, { selectedpoints: rows.size ? findPoints(rows) : null });
}

// Rings the searched row and its neighbors; without a row, the rows nearest to a text.
async function ring() {
  const { plot, plotly } = drawn;
  const marks = { ...document.querySelector("#near-text")?.dataset, ...document.querySelector("#map-row")?.dataset };
  const rows = new Set([marks.row, ...(marks.near ?? "").split(" ")].filter(Boolean).map(Number));
  const [x, y] = ["x", "y"].map((axis) => findPoints(rows).flatMap((points, i) => points.map((point) => plot.data[i][axis][point])));
  const former = plot.data.findIndex(({ name }) => name === RINGS);
  if (former >= 0) await plotly.deleteTraces(plot, former);
  if (!x.length) return;
  const marker = { symbol: "circle-open", size: 12, color: getComputedStyle(plot).caretColor, line: { width: 1.5 } };
  const { type, mode } = plot.data[0];
  const quiet = { hoverinfo: "skip", showlegend: false, unselected: { marker: { opacity: 1 } } };
  await plotly.addTraces(plot, { type, mode, x, y, marker, name: RINGS, ...quiet });
}

document.addEventListener("figure:painted", async ({ target: plot, detail: plotly }) => {
  const map = plot.closest("#map");
  if (!map) return;
  drawn = { map, plot, plotly };
  for (const name of ["plotly_selected", "plotly_deselect"]) plot.removeAllListeners(name);
  plot.on("plotly_selected", (selection) => selection && select(selection.points));
  plot.on("plotly_deselect", () => select([]));
  plot.on("plotly_click", ({ points }) => {
    const find = document.querySelector("[data-map-find]");
    if (!find) return location.assign(`?tab=map&row=${points[0].customdata}`);
    find.elements.row.value = points[0].customdata;
    find.requestSubmit();
  });
  await highlight();
  await ring();
});

document.addEventListener("htmx:after:swap", () => drawn?.plot.isConnected && ring());
document.addEventListener("change", ({ target }) => drawn?.plot.isConnected && target === field() && highlight());

document.addEventListener("click", ({ target }) => {
  const button = target.closest?.("[data-map-mode], [data-map-fit]");
  if (!button || !drawn) return;
  const { mapMode: dragmode } = button.dataset;
  drawn.plotly.relayout(drawn.plot, dragmode ? { dragmode } : { "xaxis.autorange": true, "yaxis.autorange": true });
  if (!dragmode) return;
  for (const mode of drawn.map.querySelectorAll("[data-map-mode]")) mode.setAttribute("aria-pressed", mode === button);
});
