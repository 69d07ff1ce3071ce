// What lies over the points of a map: the shape being drawn, rings around rows, and the name at the pointer.

const RING = 7;
const GAP = 10;
const LINE = 18;
const LONGEST = 48;

// The canvas is as large as what is on it, in steps: to lay all of it over the points takes longer than to draw it.
const STEP = 64;
const ROOM = RING + 6;
const TIP_WIDTH = 400;

export class Overlay {
  constructor(canvas) {
    this.canvas = canvas;
    this.pen = canvas.getContext("2d");
    this.left = 0;
    this.top = 0;
  }

  // ``rings`` and ``tip`` are places, the latter with words; ``shape`` is a list of places.
  paint(view, { shape, rings, tip, ratio }) {
    const { pen, canvas } = this;
    const pixels = [...(shape ?? []), ...rings.map(({ x, y }) => [x, y])].map(([x, y]) => view.pixel(x, y));
    const tips = tip ? [view.pixel(tip.x, tip.y)].flatMap(([x, y]) => [[x - TIP_WIDTH, y - LINE * 2], [x + TIP_WIDTH, y + LINE * 2]]) : [];
    canvas.hidden = !pixels.length && !tips.length;
    if (canvas.hidden) return;
    this.place(view, [...pixels, ...tips], ratio);
    const style = getComputedStyle(canvas.parentElement);
    pen.setTransform(ratio, 0, 0, ratio, -this.left * ratio, -this.top * ratio);
    pen.clearRect(this.left, this.top, view.width, view.height);
    if (shape?.length > 1) {
      pen.beginPath();
      for (const [x, y] of shape) pen.lineTo(...view.pixel(x, y));
      pen.closePath();
      pen.setLineDash([5, 4]);
      pen.lineWidth = 1.5;
      pen.strokeStyle = style.color;
      pen.stroke();
      pen.setLineDash([]);
    }
    for (const { x, y, strong } of rings) this.ring(view.pixel(x, y), style, strong);
    if (tip) this.tip(view, tip, style);
  }

  // Lays the canvas where these pixels are, as far as they are on the map.
  place(view, pixels, ratio) {
    const ends = (at, all) => {
      const values = pixels.map((pixel) => pixel[at]);
      const low = Math.floor((Math.min(...values) - ROOM) / STEP) * STEP;
      const high = Math.ceil((Math.max(...values) + ROOM) / STEP) * STEP;
      return [Math.min(Math.max(low, 0), all), Math.max(Math.min(high, all), 0)];
    };
    const { canvas } = this;
    const [[left, right], [top, bottom]] = [ends(0, view.width), ends(1, view.height)];
    const [width, height] = [Math.max(right - left, 1), Math.max(bottom - top, 1)];
    Object.assign(this, { left, top });
    for (const [name, value] of Object.entries({ left, top, width, height })) canvas.style.setProperty(name, `${value}px`);
    const [across, up] = [Math.round(width * ratio), Math.round(height * ratio)];
    if (canvas.width !== across) canvas.width = across;
    if (canvas.height !== up) canvas.height = up;
  }

  ring([x, y], style, strong) {
    const { pen } = this;
    for (const [colour, width] of [[style.backgroundColor, 4], [style.color, strong ? 2.5 : 1.5]]) {
      pen.beginPath();
      pen.arc(x, y, strong ? RING + 2 : RING, 0, 2 * Math.PI);
      pen.strokeStyle = colour;
      pen.lineWidth = width;
      pen.stroke();
    }
  }

  tip(view, { x, y, words }, style) {
    const { pen } = this;
    const [px, py] = view.pixel(x, y);
    const shown = words.length > LONGEST ? `${words.slice(0, LONGEST - 1)}…` : words;
    pen.font = `13px ${style.fontFamily}`;
    const width = pen.measureText(shown).width + 12;
    const left = px + GAP + width > view.width ? px - GAP - width : px + GAP;
    const top = Math.min(Math.max(py - LINE / 2 - 4, 1), view.height - LINE - 9);
    pen.fillStyle = style.backgroundColor;
    pen.strokeStyle = style.borderTopColor;
    pen.lineWidth = 1;
    pen.beginPath();
    pen.rect(Math.max(left, 1), top, width, LINE + 8);
    pen.fill();
    pen.stroke();
    pen.fillStyle = style.color;
    pen.fillText(shown, Math.max(left, 1) + 6, top + LINE);
  }
}
