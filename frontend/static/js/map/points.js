// The points of a map as typed arrays over the bytes that the server sends, and the names of their rows, which come
// when one is asked for.

import { ask } from "../ask.js";

const TYPES = { float32: Float32Array, uint32: Uint32Array, uint16: Uint16Array };
const NEWLINE = 10;

async function fetchBytes(address) {
  return (await ask(address)).arrayBuffer();
}

function view(bytes, { type, offset, count }) {
  return new TYPES[type](bytes, offset, count);
}

export async function fetchPoints(address) {
  const map = await (await ask(address, { Accept: "application/json" })).json();
  return new Points(map, await fetchBytes(map.points));
}

export class Points {
  constructor(map, bytes) {
    const { header } = map;
    const read = (name) => (header.sections[name] ? view(bytes, header.sections[name]) : null);
    this.asked = {};
    this.map = map;
    this.n = header.points;
    this.unit = header.unit;
    this.xy = read("xy");
    this.norm = read("norm");
    this.rows = read("row");
    this.labels = read("label");
    this.bounds = boundsOf(this.xy);
  }

  // The place of a point's row in the file.
  row(point) {
    return this.rows ? this.rows[point] : point;
  }

  // The points of these rows, as far as the map has them.
  of(rows) {
    return Uint32Array.from([...rows].map((row) => this.point(row)).filter((point) => point >= 0));
  }

  // The point of a row by its place in the file; -1 where the map does not show it.
  point(row) {
    if (!this.rows) return row < this.n ? row : -1;
    let [from, until] = [0, this.n];
    while (from < until) {
      const middle = (from + until) >> 1;
      if (this.rows[middle] < row) from = middle + 1;
      else until = middle;
    }
    return this.rows[from] === row ? from : -1;
  }

  label(point) {
    return this.labels ? this.map.header.labels.names[this.labels[point]] || "no label" : "";
  }

  // Asks for the numbers of a kept column once.
  async column(place) {
    const { address, values } = this.map.columns[place];
    this.asked[place] ??= fetchBytes(address).then((bytes) => view(bytes, values));
    return this.asked[place];
  }

  // Asks for the names once; a map of unnamed rows has none.
  names() {
    if (!this.map.names) return Promise.resolve(null);
    this.asked.names ??= fetchBytes(this.map.names).then((bytes) => (this.named = new Names(bytes, this.n)));
    return this.asked.names;
  }

  // The name of a point's row, empty until names have come.
  name(point) {
    return this.named ? this.named.at(point) : "";
  }
}

// Names stay bytes: a million strings would take ten times their memory.
class Names {
  constructor(bytes, n) {
    this.bytes = new Uint8Array(bytes);
    this.starts = new Uint32Array(n + 1);
    this.starts[n] = this.bytes.length + 1;
    for (let line = 1, at = 0; line < n; line++) {
      at = this.bytes.indexOf(NEWLINE, at) + 1;
      this.starts[line] = at;
    }
    this.decoder = new TextDecoder();
  }

  at(line) {
    return this.decoder.decode(this.bytes.subarray(this.starts[line], this.starts[line + 1] - 1));
  }
}

function boundsOf(xy) {
  const bounds = { left: Infinity, right: -Infinity, bottom: Infinity, top: -Infinity };
  for (let i = 0; i < xy.length; i += 2) {
    if (xy[i] < bounds.left) bounds.left = xy[i];
    if (xy[i] > bounds.right) bounds.right = xy[i];
    if (xy[i + 1] < bounds.bottom) bounds.bottom = xy[i + 1];
    if (xy[i + 1] > bounds.top) bounds.top = xy[i + 1];
  }
  return bounds;
}
