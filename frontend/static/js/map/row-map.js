// One map: its points, which of them are shown, selected and ringed, and frames drawn when something has changed.

import { byGroup, byNorm, rgb, shuffled } from "./colours.js";
import { Grid } from "./grid.js";
import { Input } from "./input.js";
import { Overlay } from "./overlay.js";
import { Painter } from "./painter.js";
import { Selection } from "./selection.js";
import { View } from "./view.js";

const REACH = 12;
const REST_MS = 160;
const BUTTON_ZOOM = 1.6;
const NONE = new Uint32Array();
const numeral = (value) => value.toLocaleString("en", { maximumSignificantDigits: 4 });

export class RowMap {
  constructor(figure, points) {
    this.figure = figure;
    this.points = points;
    this.canvas = this.one("points");
    this.grid = new Grid(points);
    this.painter = Painter.on(this.canvas, points, this.grid);
    if (!this.painter) throw new Error("This browser has no place for it on the graphics card.");
    this.overlay = new Overlay(this.one("overlay"));
    this.view = new View(points.bounds);
    this.selection = new Selection(this.one("selection"), points);
    this.order = shuffled(points.n);
    this.hidden = new Set();
    this.isShown = (point) => !this.hidden.size || !this.hidden.has(points.group(point));
    this.rings = [];
    this.pointed = -1;
    this.movedAt = -Infinity;
  }

  one(name) {
    return this.figure.querySelector(`[data-map-${name}]`);
  }

  open() {
    this.painter.show(this.order);
    this.colour(this.one("colour").value);
    this.resize();
    this.one("wait").hidden = true;
    this.listen();
    new ResizeObserver(() => this.resize()).observe(this.canvas.parentElement);
    const again = () => this.change();
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
    new MutationObserver(again).observe(document.documentElement, { attributeFilter: ["data-theme"] });
  }

  listen() {
    const { view, figure } = this;
    this.input = new Input(this.canvas, {
      pan: (right, down) => this.move(() => view.pan(right, down)),
      zoom: (factor, at) => this.move(() => view.zoomAt(factor, at)),
      fit: () => this.move(() => view.fit()),
      point: (at) => this.point(this.near(at)),
      leave: () => this.point(-1),
      click: (at) => this.read(this.near(at)),
      read: () => this.read(this.near([view.width / 2, view.height / 2], Infinity)),
      draw: (shape) => this.draw(shape),
      drawn: (shape) => this.select(shape.map((pixel) => view.place(pixel))),
      clear: () => this.choose(NONE),
    });
    figure.addEventListener("click", ({ target }) => {
      const { mapMode, mapDo, mapGroup, mapPng } = target.closest("button")?.dataset ?? {};
      if (mapMode) this.turn(mapMode);
      if (mapDo) this.press(mapDo);
      if (mapGroup) this.toggle(target.closest("button"), Number(mapGroup));
      if (mapPng) this.save(mapPng);
    });
    this.one("colour").addEventListener("change", ({ target }) => this.colour(target.value));
  }

  press(what) {
    const { view } = this;
    const middle = [view.width / 2, view.height / 2];
    const does = {
      in: () => this.move(() => view.zoomAt(BUTTON_ZOOM, middle)),
      out: () => this.move(() => view.zoomAt(1 / BUTTON_ZOOM, middle)),
      fit: () => this.move(() => view.fit()),
      select: () => this.select(view.corners()),
      clear: () => this.choose(NONE),
    };
    does[what]();
  }

  // What dragging does from now on.
  turn(mode) {
    this.input.mode = mode;
    this.canvas.dataset.mode = mode;
    for (const button of this.figure.querySelectorAll("[data-map-mode]")) {
      button.setAttribute("aria-pressed", button.dataset.mapMode === mode);
    }
  }

  toggle(button, group) {
    if (!this.hidden.delete(group)) this.hidden.add(group);
    button.setAttribute("aria-pressed", !this.hidden.has(group));
    this.painter.show(this.order.filter(this.isShown));
    this.choose(this.selection.chosen.filter(this.isShown));
  }

  colour(by) {
    const { groups, colours, low, high } = by === "norm" ? byNorm(this.points) : byGroup(this.points);
    this.painter.colour(groups, colours);
    for (const legend of this.figure.querySelectorAll("[data-map-legend]")) {
      legend.hidden = legend.dataset.mapLegend !== by;
    }
    if (by === "norm") {
      this.one("low").textContent = `${numeral(low)} or less`;
      this.one("high").textContent = `${numeral(high)} or more`;
    }
    this.change();
  }

  // The point that is shown nearest to a pixel.
  near(at, reach = REACH) {
    return this.grid.nearest(...this.view.place(at), reach / this.view.scale, this.isShown);
  }

  point(point) {
    if (point === this.pointed) return;
    this.pointed = point;
    this.paintOver();
    if (point >= 0) this.tell(point);
  }

  // Reads a row out, and rings it until another is read.
  read(point) {
    this.rings = point < 0 ? [] : [{ point, strong: true }];
    this.paintOver();
    if (point >= 0) this.tell(point);
  }

  async tell(point) {
    const { points } = this;
    this.told = point;
    const [x, y] = [points.xy[2 * point], points.xy[2 * point + 1]].map((one) => numeral(one * points.unit));
    const words = [`Row ${points.row(point).toLocaleString("en")}`, points.label(point)];
    words.push(`at ${x}, ${y}`, `norm ${numeral(points.norm[point] * points.unit)}`);
    const said = () => [words[0], points.name(point), ...words.slice(1)].filter(Boolean).join(" · ");
    this.one("told").textContent = said();
    if (points.named || !points.map.names) return;
    await points.names();
    if (this.told !== point) return;
    this.one("told").textContent = said();
    this.paintOver();
  }

  draw(shape) {
    this.shape = shape?.map((pixel) => this.view.place(pixel));
    this.paintOver();
  }

  select(shape) {
    this.shape = null;
    this.choose(this.grid.within(shape, this.isShown));
  }

  choose(chosen) {
    this.selection.choose(chosen);
    this.painter.mark(chosen);
    this.change();
  }

  move(how) {
    how();
    this.movedAt = performance.now();
    this.change();
  }

  resize() {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    this.ratio = devicePixelRatio;
    for (const canvas of [this.canvas, this.overlay.canvas]) {
      canvas.width = Math.round(width * this.ratio);
      canvas.height = Math.round(height * this.ratio);
    }
    this.view.resize(width, height);
    this.change();
  }

  // Has everything drawn anew with the next frame.
  change() {
    this.isGoingOn = false;
    this.ask();
  }

  ask() {
    this.asked ??= requestAnimationFrame(() => this.frame());
  }

  frame() {
    this.asked = undefined;
    const rest = this.movedAt + REST_MS - performance.now();
    const isMoving = rest > 0;
    const ink = rgb(getComputedStyle(this.canvas).color);
    const { isGoingOn, ratio } = this;
    this.isGoingOn = this.painter.paint(this.view, { isMoving, isGoingOn, ink, ratio });
    this.paintOver();
    clearTimeout(this.resting);
    if (this.isGoingOn) this.ask();
    else if (isMoving && this.painter.hides) this.resting = setTimeout(() => this.change(), rest);
    this.figure.dataset.frames = Number(this.figure.dataset.frames ?? 0) + 1;
  }

  paintOver() {
    const { points, pointed } = this;
    const placed = (point) => ({ x: points.xy[2 * point], y: points.xy[2 * point + 1] });
    const rings = this.rings.map(({ point, strong }) => ({ ...placed(point), strong }));
    const words = pointed < 0 ? "" : points.name(pointed) || `row ${points.row(pointed).toLocaleString("en")}`;
    if (pointed >= 0) rings.push({ ...placed(pointed), strong: false });
    const tip = words && { ...placed(pointed), words };
    this.overlay.paint(this.view, { shape: this.shape, rings, tip, ratio: this.ratio });
  }

  // The picture on the paper of the page.
  save(name) {
    const whole = document.createElement("canvas");
    Object.assign(whole, { width: this.canvas.width, height: this.canvas.height });
    const pen = whole.getContext("2d");
    pen.fillStyle = getComputedStyle(this.canvas.parentElement).backgroundColor;
    pen.fillRect(0, 0, whole.width, whole.height);
    for (const canvas of [this.canvas, this.overlay.canvas]) pen.drawImage(canvas, 0, 0);
    const link = document.createElement("a");
    link.href = whole.toDataURL("image/png");
    link.download = name;
    link.click();
  }
}
