// What pointers, the wheel and keys do on a map: pan, zoom, point, draw a shape.

const STEP = 60;
const KEY_ZOOM = 1.4;
const WHEEL_ZOOM = 0.0016;
const LINE_PIXELS = 16;
const CLICK_PIXELS = 4;

const between = ([x1, y1], [x2, y2]) => Math.hypot(x2 - x1, y2 - y1);
const middle = ([x1, y1], [x2, y2]) => [(x1 + x2) / 2, (y1 + y2) / 2];

export class Input {
  // ``on`` says what is done: pan, zoom, point, leave, draw, drawn, click, read, fit, clear.
  constructor(canvas, on) {
    this.canvas = canvas;
    this.on = on;
    this.mode = "pan";
    this.down = new Map();
    canvas.addEventListener("pointerdown", (event) => this.press(event));
    canvas.addEventListener("pointermove", (event) => this.move(event));
    canvas.addEventListener("pointerup", (event) => this.lift(event));
    canvas.addEventListener("pointercancel", (event) => this.cancel(event));
    canvas.addEventListener("pointerleave", () => this.down.size || on.leave());
    canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    canvas.addEventListener("keydown", (event) => this.key(event));
  }

  at({ clientX, clientY }) {
    const box = this.canvas.getBoundingClientRect();
    return [clientX - box.left, clientY - box.top];
  }

  press(event) {
    if (event.button) return;
    this.canvas.setPointerCapture(event.pointerId);
    this.down.set(event.pointerId, this.at(event));
    this.pressed = this.at(event);
    this.isClick = this.down.size === 1;
    this.shape = this.mode !== "pan" && this.down.size === 1 ? [this.pressed] : null;
  }

  move(event) {
    const to = this.at(event);
    const from = this.down.get(event.pointerId);
    if (!from) {
      this.on.point(to);
      return;
    }
    if (between(this.pressed, to) > CLICK_PIXELS) this.isClick = false;
    if (this.down.size === 2) this.pinch(event.pointerId, from, to);
    else if (this.shape) this.extend(to);
    else if (this.down.size === 1) this.on.pan(to[0] - from[0], to[1] - from[1]);
    this.down.set(event.pointerId, to);
  }

  pinch(moved, from, to) {
    const [other] = [...this.down].filter(([id]) => id !== moved).map(([, at]) => at);
    const [before, after] = [middle(other, from), middle(other, to)];
    this.on.pan(after[0] - before[0], after[1] - before[1]);
    this.on.zoom(between(other, to) / Math.max(between(other, from), 1), after);
  }

  extend(to) {
    const [x1, y1] = this.shape[0];
    if (this.mode === "box") this.shape = [this.shape[0], [to[0], y1], to, [x1, to[1]]];
    else this.shape.push(to);
    this.on.draw(this.shape);
  }

  lift(event) {
    if (!this.down.delete(event.pointerId)) return;
    if (this.isClick) this.on.click(this.at(event));
    else if (this.shape) this.on.drawn(this.shape);
    this.shape = null;
  }

  cancel(event) {
    this.down.delete(event.pointerId);
    this.shape = null;
    this.on.draw(null);
  }

  wheel(event) {
    event.preventDefault();
    const pixels = event.deltaMode ? event.deltaY * LINE_PIXELS : event.deltaY;
    this.on.zoom(Math.exp(-pixels * WHEEL_ZOOM), this.at(event));
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const centre = [this.canvas.clientWidth / 2, this.canvas.clientHeight / 2];
    const does = {
      ArrowLeft: () => this.on.pan(STEP, 0),
      ArrowRight: () => this.on.pan(-STEP, 0),
      ArrowUp: () => this.on.pan(0, STEP),
      ArrowDown: () => this.on.pan(0, -STEP),
      "+": () => this.on.zoom(KEY_ZOOM, centre),
      "=": () => this.on.zoom(KEY_ZOOM, centre),
      "-": () => this.on.zoom(1 / KEY_ZOOM, centre),
      0: () => this.on.fit(),
      Enter: () => this.on.read(),
      Escape: () => this.on.clear(),
    }[event.key];
    if (!does) return;
    event.preventDefault();
    does();
  }
}
