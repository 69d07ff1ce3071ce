// Points sorted into the cells of a grid: how many lie where, which is nearest to a place, which lie within a shape.

const CELLS = 512;

export class Grid {
  constructor(points) {
    const { xy, n, bounds } = points;
    this.points = points;
    this.cells = CELLS;
    this.left = bounds.left;
    this.bottom = bounds.bottom;
    this.width = (bounds.right - bounds.left) / CELLS || 1;
    this.height = (bounds.top - bounds.bottom) / CELLS || 1;
    const cell = new Uint32Array(n);
    this.starts = new Uint32Array(CELLS * CELLS + 1);
    for (let i = 0; i < n; i++) {
      cell[i] = this.row(xy[2 * i + 1]) * CELLS + this.column(xy[2 * i]);
      this.starts[cell[i] + 1]++;
    }
    for (let i = 0; i < CELLS * CELLS; i++) this.starts[i + 1] += this.starts[i];
    const next = this.starts.slice(0, -1);
    this.members = new Uint32Array(n);
    for (let i = 0; i < n; i++) this.members[next[cell[i]]++] = i;
  }

  column(x) {
    return Math.min(Math.max(Math.floor((x - this.left) / this.width), 0), CELLS - 1);
  }

  row(y) {
    return Math.min(Math.max(Math.floor((y - this.bottom) / this.height), 0), CELLS - 1);
  }

  // Calls back with each point of the cells that a box touches, those of a bit more than the box.
  each({ left, right, bottom, top }, visit) {
    const last = this.column(right);
    for (let row = this.row(bottom); row <= this.row(top); row++) {
      const from = this.starts[row * CELLS + this.column(left)];
      const to = this.starts[row * CELLS + last + 1];
      for (let i = from; i < to; i++) visit(this.members[i]);
    }
  }

  // The point nearest to a place, within a distance, of those that are shown; -1 where there is none.
  nearest(x, y, distance, isShown) {
    const { xy } = this.points;
    let best = distance * distance;
    let found = -1;
    this.each({ left: x - distance, right: x + distance, bottom: y - distance, top: y + distance }, (point) => {
      const far = (xy[2 * point] - x) ** 2 + (xy[2 * point + 1] - y) ** 2;
      if (far <= best && isShown(point)) {
        best = far;
        found = point;
      }
    });
    return found;
  }

  // The points within a closed shape, a list of [x, y], of those that are shown, ascending.
  within(shape, isShown) {
    const { xy } = this.points;
    const xs = shape.map(([x]) => x);
    const ys = shape.map(([, y]) => y);
    const box = { left: Math.min(...xs), right: Math.max(...xs), bottom: Math.min(...ys), top: Math.max(...ys) };
    const found = [];
    this.each(box, (point) => {
      if (isShown(point) && isInside(shape, xy[2 * point], xy[2 * point + 1])) found.push(point);
    });
    return Uint32Array.from(found).sort();
  }

  // How many points each cell holds, as shades from 0 to 255 by their logarithm.
  shades() {
    const shades = new Uint8Array(CELLS * CELLS);
    let most = 1;
    for (let i = 0; i < shades.length; i++) most = Math.max(most, this.starts[i + 1] - this.starts[i]);
    for (let i = 0; i < shades.length; i++) {
      const count = this.starts[i + 1] - this.starts[i];
      if (count) shades[i] = 40 + (215 * Math.log1p(count)) / Math.log1p(most);
    }
    return shades;
  }
}

// Whether a ray from the place leaves the shape an odd number of times.
function isInside(shape, x, y) {
  let inside = false;
  for (let i = 0, j = shape.length - 1; i < shape.length; j = i++) {
    const [x1, y1] = shape[i];
    const [x2, y2] = shape[j];
    if (y1 > y !== y2 > y && x < ((x2 - x1) * (y - y1)) / (y2 - y1) + x1) inside = !inside;
  }
  return inside;
}
