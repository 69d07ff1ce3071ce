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

  // The points within a closed shape, a list of [x, y], of those that are shown, ascending. Only those of cells that
  // the outline crosses are looked at one by one: others lie within or outside as their cell does.
  within(shape, isShown) {
    const { xy } = this.points;
    const box = boxOf(shape);
    const [from, until] = [this.column(box.left), this.column(box.right)];
    const crossed = this.crossed(shape);
    const found = [];
    for (let row = this.row(box.bottom); row <= this.row(box.top); row++) {
      let inside = null;
      for (let column = from; column <= until; column++) {
        const cell = row * CELLS + column;
        inside = crossed[cell] ? null : inside ?? isInside(shape, ...this.center(row, column));
        if (inside === false) continue;
        for (let i = this.starts[cell]; i < this.starts[cell + 1]; i++) {
          const point = this.members[i];
          const isIn = inside ?? isInside(shape, xy[2 * point], xy[2 * point + 1]);
          if (isIn && isShown(point)) found.push(point);
        }
      }
    }
    return Uint32Array.from(found).sort();
  }

  center(row, column) {
    return [this.left + (column + 0.5) * this.width, this.bottom + (row + 0.5) * this.height];
  }

  // The cells that the outline of a shape crosses, and their neighbors to the left and right, for rounding.
  crossed(shape) {
    const cells = new Uint8Array(CELLS * CELLS);
    for (let i = 0, j = shape.length - 1; i < shape.length; j = i++) {
      const [[x1, y1], [x2, y2]] = shape[i][1] < shape[j][1] ? [shape[i], shape[j]] : [shape[j], shape[i]];
      const at = (y) => x1 + ((x2 - x1) * (Math.min(Math.max(y, y1), y2) - y1)) / (y2 - y1);
      for (let row = this.row(y1); row <= this.row(y2); row++) {
        const low = this.bottom + row * this.height;
        const ends = y2 > y1 ? [at(low), at(low + this.height)] : [x1, x2];
        const from = row * CELLS + Math.max(this.column(Math.min(...ends)) - 1, 0);
        const until = row * CELLS + Math.min(this.column(Math.max(...ends)) + 1, CELLS - 1);
        cells.fill(1, from, until + 1);
      }
    }
    return cells;
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

function boxOf(shape) {
  const [xs, ys] = [shape.map(([x]) => x), shape.map(([, y]) => y)];
  return { left: Math.min(...xs), right: Math.max(...xs), bottom: Math.min(...ys), top: Math.max(...ys) };
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
