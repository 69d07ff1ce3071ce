// The rows selected on a map, and the form that has them measured.

const NAMED = 8;
const MOST_CHARACTERS = 100_000;
const CHUNK = 8192;

// Ascending rows in few characters: 0-99 120 130-180.
export function runsOf(rows) {
  const runs = [];
  for (let i = 0; i < rows.length; i++) {
    const first = rows[i];
    while (i + 1 < rows.length && rows[i + 1] === rows[i] + 1) i++;
    runs.push(rows[i] === first ? `${first}` : `${first}-${rows[i]}`);
  }
  return runs.join(" ");
}

// The rows that runs name.
export function rowsOf(runs) {
  const rows = new Set();
  for (const run of runs.split(" ")) {
    const [first, last = first] = run.split("-").map(Number);
    for (let row = first; row <= last; row++) rows.add(row);
  }
  return rows;
}

// A bit a point, the highest of a byte first, in base64: a million points take 170 kB however they lie.
export function bitsOf(chosen, n) {
  const bytes = new Uint8Array(Math.ceil(n / 8));
  for (const point of chosen) bytes[point >> 3] |= 128 >> (point & 7);
  let text = "";
  for (let i = 0; i < bytes.length; i += CHUNK) text += String.fromCharCode(...bytes.subarray(i, i + CHUNK));
  return btoa(text);
}

export class Selection {
  constructor(form, points) {
    this.form = form;
    this.points = points;
    this.chosen = new Uint32Array();
    form.addEventListener("submit", () => this.fill());
  }

  // What is sent: runs of rows where they are few, else bits.
  fill() {
    const { chosen, points, form } = this;
    const runs = runsOf(Array.from(chosen, (point) => points.row(point)));
    const isLong = runs.length > MOST_CHARACTERS;
    form.elements.rows.value = isLong ? "" : runs;
    form.elements.bits.value = isLong ? bitsOf(chosen, points.n) : "";
  }

  async choose(chosen) {
    this.chosen = chosen;
    this.form.hidden = !chosen.length;
    if (!chosen.length) return;
    await this.points.names();
    if (this.chosen === chosen) this.tell();
  }

  tell() {
    const { chosen, points } = this;
    const some = Array.from(chosen.subarray(0, NAMED), (point) => points.name(point) || `row ${points.row(point)}`);
    const more = chosen.length - some.length;
    const words = `${chosen.length.toLocaleString("en")} ${chosen.length === 1 ? "row" : "rows"} selected: `;
    const rest = more ? ` and ${more.toLocaleString("en")} more` : "";
    this.form.querySelector("[data-map-selected]").textContent = `${words}${some.join(", ")}${rest}.`;
  }
}
