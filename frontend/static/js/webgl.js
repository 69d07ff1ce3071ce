// Figures that a graphics card draws: what becomes of them where there is none, or no more room on it.

const MOST_IN_SVG = 4000;
// A browser keeps 16 contexts and drops the oldest without a word; plotly takes three for a plot.
const MOST_LIVE = 4;
// Kinds that nothing but a card can draw.
const SOLID = ["scatter3d", "parcoords"];
const live = new Set();
let offered;

function isOffered() {
  offered ??= Boolean(document.createElement("canvas").getContext("webgl"));
  return offered;
}

// Whether this box has, or may have, one of the places on the card; those of boxes that left the page are free again.
function hasPlace(box) {
  for (const other of live) {
    if (!other.isConnected) live.delete(other);
  }
  if (!isOffered() || (!live.has(box) && live.size >= MOST_LIVE)) return false;
  live.add(box);
  return true;
}

const flat = (trace) => trace.type === "scattergl";
const solid = (trace) => SOLID.includes(trace.type);
export const needsCard = (traces) => traces.some((trace) => flat(trace) || solid(trace));

const pointsOf = (traces) => traces.filter(flat).reduce((sum, { x }) => sum + x.length, 0);

function thinned(trace, every) {
  if (!flat(trace)) return trace;
  const kept = (values) => (values?.length === trace.x.length ? values.filter((_, i) => i % every === 0) : values);
  const [x, y, text, customdata] = [trace.x, trace.y, trace.text, trace.customdata].map(kept);
  return { ...trace, x, y, text, customdata, marker: { ...trace.marker, color: kept(trace.marker?.color) } };
}

// The figure as this box can show it, null if it cannot, and what the reader must know of that.
export function drawable(figure, box) {
  if (!needsCard(figure.data) || hasPlace(box)) return { figure, remark: "" };
  const why = isOffered() ? "Other figures of this page use up WebGL" : "This browser offers no WebGL";
  if (figure.data.some(solid)) return { figure: null, remark: `${why}, which this figure needs. Its numbers are below.` };
  const points = pointsOf(figure.data);
  // Each trace may keep one more than its share.
  const every = Math.ceil(points / (MOST_IN_SVG - figure.data.length));
  const traces = figure.data.map((trace) => thinned(trace, every));
  const data = traces.map((trace) => (flat(trace) ? { ...trace, type: "scatter" } : trace));
  const shown = pointsOf(traces);
  const remark = `${why}: ${shown.toLocaleString("en")} of these ${points.toLocaleString("en")} points are shown.`;
  return { figure: { ...figure, data }, remark: every > 1 ? remark : "" };
}
