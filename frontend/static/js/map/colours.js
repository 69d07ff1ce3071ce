// How the points of a map are colored: by the group of their label, or by a number along a ramp.

const STEPS = 256;
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

export function byGroup(points) {
  const groups = new Uint8Array(points.n);
  for (let i = 0; i < points.n; i++) groups[i] = points.group(i);
  return { groups, colours: points.map.groups.map(({ colour }) => rgb(colour)) };
}

// By the norm: the ends of the ramp hold the hundredth of the rows on either side.
export function byNorm(points) {
  const { low, high } = range(points.norm);
  const step = (STEPS - 1) / (high - low || 1);
  const groups = new Uint8Array(points.n);
  for (let i = 0; i < points.n; i++) groups[i] = Math.min(Math.max((points.norm[i] - low) * step, 0), STEPS - 1);
  return { groups, colours: ramp(points.map.ramp.map(rgb)), low: low * points.unit, high: high * points.unit };
}

function range(values) {
  const every = Math.ceil(values.length / SAMPLE);
  const some = values.filter((_, i) => i % every === 0).sort();
  const at = (share) => some[Math.round(share * (some.length - 1))];
  return { low: at(TAIL), high: at(1 - TAIL) };
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
  const order = Uint32Array.from({ length: n }, (_, i) => i);
  let state = 1;
  for (let i = n - 1; i > 0; i--) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    const j = Math.floor((state / 2 ** 32) * (i + 1));
    [order[i], order[j]] = [order[j], order[i]];
  }
  return order;
}
