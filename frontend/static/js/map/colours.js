// How the points of a map are colored: by the group of their label, or by a number along a ramp; of the map itself or of
// a kept column.

const STEPS = 255;
const SAMPLE = 20_000;
const TAIL = 0.01;
const pen = Object.assign(document.createElement("canvas"), { width: 1, height: 1 }).getContext("2d", {
  willReadFrequently: true,
});

// Red, green and blue of any color that CSS knows.
export function rgb(colour) {
  pen.fillStyle = colour;
  pen.fillRect(0, 0, 1, 1);
  return [...pen.getImageData(0, 0, 1, 1).data.slice(0, 3)];
}

export const numeral = (value) => value.toLocaleString("en", { maximumSignificantDigits: 4 });
const told = (value) => (Number.isNaN(value) ? "unknown" : numeral(value));

// Groups and colors of all points by what was chosen, the ends of a ramp, and how the value of a point reads.
export async function colouringBy(by, points) {
  const { map } = points;
  if (by === "norm") return { name: "Norm", ...byNumber(points.norm, points.unit, map.ramp, map.quiet) };
  if (!by.startsWith("column-")) return byLabel(points.labels, map.group_of_label, map.groups, points.n);
  const place = Number(by.slice("column-".length));
  const values = await points.column(place);
  const { name, groups, group_of_label: groupOf } = map.columns[place];
  const labels = map.header.columns[place].labels?.names;
  const value = (point) => `${name} ${labels ? labels[values[point]] || "none" : told(values[point])}`;
  const own = labels ? byLabel(values, groupOf, groups, points.n) : byNumber(values, 1, map.ramp, map.quiet);
  return { name, value, ...own };
}

// By the group of each point's label, a place in ``groupOf``; all alike without labels.
function byLabel(codes, groupOf, groups, n) {
  const own = new Uint8Array(n);
  if (codes) for (let i = 0; i < n; i++) own[i] = groupOf[codes[i]];
  return { groups: own, colours: groups.map(({ colour }) => rgb(colour)) };
}

// By a number along a ramp, whose ends hold the hundredth of the rows on either side; rows without one are quiet.
function byNumber(values, unit, stops, quiet) {
  const { low, high, least, most } = range(values);
  const step = (STEPS - 1) / (high - low || 1);
  const groups = new Uint8Array(values.length);
  let missing = 0;
  for (let i = 0; i < values.length; i++) {
    const isNumber = values[i] === values[i];
    groups[i] = isNumber ? Math.min(Math.max((values[i] - low) * step, 0), STEPS - 1) : STEPS;
    if (!isNumber) missing++;
  }
  const ends = [{ value: low * unit, isOpen: least < low }, { value: high * unit, isOpen: most > high }];
  return { groups, colours: [...ramp(stops.map(rgb)), rgb(quiet)], ends, missing };
}

function range(values) {
  const every = Math.ceil(values.length / SAMPLE);
  let some = values.filter((value, i) => i % every === 0 && value === value);
  if (!some.length) some = values.filter((value) => value === value);
  some.sort();
  const at = (share) => some[Math.round(share * (some.length - 1))] ?? 0;
  return { low: at(TAIL), high: at(1 - TAIL), least: at(0), most: at(1) };
}

function ramp(stops) {
  return Array.from({ length: STEPS }, (_, step) => {
    const at = (step / (STEPS - 1)) * (stops.length - 1);
    const from = Math.min(Math.floor(at), stops.length - 2);
    return stops[from].map((one, i) => Math.round(one + (stops[from + 1][i] - one) * (at - from)));
  });
}

// All points in an order that looks random and is always the same, so that none of the groups lies on all others and
// the first are a sample.
export function shuffled(n) {
  const order = new Uint32Array(n);
  for (let i = 0; i < n; i++) order[i] = i;
  let state = 1;
  for (let i = n - 1; i > 0; i--) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    const j = Math.floor((state / 2 ** 32) * (i + 1));
    [order[i], order[j]] = [order[j], order[i]];
  }
  return order;
}
