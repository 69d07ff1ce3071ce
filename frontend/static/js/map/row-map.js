// One map: its points, which of them are shown, selected and ringed, and frames drawn when something has changed.

import { colouringBy, numeral, rgb, shuffled } from "./colours.js";
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

export class RowMap {
  constructor(figure, points) {
    this.figure = figure;
    this.points = points;
    this.canvas = this.one("points");
    this.grid = new Grid(points);
    this.painter = this.newPainter();
    this.overlay = new Overlay(this.one("overlay"));
    this.view = new View(points.bounds);
    this.selection = new Selection(this.one("selection"), points);
    this.order = shuffled(points.n);
    this.filter = { by: "", groups: null, hidden: new Set() };
    this.isShown = (point) => !this.filter.hidden.size || !this.filter.hidden.has(this.filter.groups[point]);
    this.rings = [];
    this.pointed = -1;
    this.movedAt = -Infinity;
  }

  one(name) {
    return this.figure.querySelector(`[data-map-${name}]`);
  }

  newPainter() {
    const painter = Painter.on(this.canvas, this.points, this.grid);
    if (!painter) throw new Error("This browser has no place for it on the graphics card.");
    return painter;
  }

  open() {
    this.painter.show(this.order);
    this.colour(this.one("colour").value);
    this.resize();
    this.one("wait").hidden = true;
    this.listen();
    this.mark();
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
      clear: () => this.clear(),
    });
    figure.addEventListener("click", ({ target }) => {
      const { mapMode, mapDo, mapGroup, mapPng } = target.closest("button")?.dataset ?? {};
      if (mapMode) this.turn(mapMode);
      if (mapDo) this.press(mapDo);
      if (mapGroup) this.toggle(target.closest("button"), Number(mapGroup));
      if (mapPng) this.save(mapPng);
    });
    this.one("colour").addEventListener("change", ({ target }) => this.colour(target.value));
    this.canvas.addEventListener("webglcontextlost", (event) => this.lose(event));
    this.canvas.addEventListener("webglcontextrestored", () => this.restore());
  }

  // The card can be taken away: its driver starts again, or too many pages draw.
  lose(event) {
    event.preventDefault();
    this.isLost = true;
    cancelAnimationFrame(this.asked);
    this.asked = undefined;
    this.wait("The graphics card dropped this map. It comes back with the card. Reload the page if it stays away.");
    this.figure.dispatchEvent(new Event("map:lost", { bubbles: true }));
  }

  restore() {
    this.painter = this.newPainter();
    this.isLost = false;
    this.painter.show(this.order.filter(this.isShown));
    this.painter.colour(this.colouring.groups, this.colouring.colours);
    this.painter.mark(this.selection.chosen);
    this.wait("");
    this.change();
  }

  // Says something in place of the map; nothing shows the map again.
  wait(words) {
    this.one("wait").textContent = words;
    this.one("wait").hidden = !words;
  }

  press(what) {
    const { view } = this;
    const middle = [view.width / 2, view.height / 2];
    const does = {
      in: () => this.move(() => view.zoomAt(BUTTON_ZOOM, middle)),
      out: () => this.move(() => view.zoomAt(1 / BUTTON_ZOOM, middle)),
      fit: () => this.move(() => view.fit()),
      select: () => this.select(view.corners()),
      clear: () => this.clear(),
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
    const { by, groups } = this.colouring;
    this.filter = this.filter.by === by ? this.filter : { by, groups, hidden: new Set() };
    const { hidden } = this.filter;
    if (!hidden.delete(group)) hidden.add(group);
    button.setAttribute("aria-pressed", !hidden.has(group));
    if (!this.isLost) this.painter.show(this.order.filter(this.isShown));
    this.choose(this.selection.chosen.filter(this.isShown));
  }

  showAll() {
    if (!this.filter.hidden.size) return;
    this.filter.hidden.clear();
    for (const one of this.figure.querySelectorAll("[data-map-group]")) one.setAttribute("aria-pressed", true);
    if (!this.isLost) this.painter.show(this.order);
  }

  async colour(by) {
    try {
      const colouring = { by, ...(await colouringBy(by, this.points)) };
      if (this.one("colour").value === by) this.paintBy(colouring);
    } catch (error) {
      this.one("told").textContent = `The column could not be loaded. ${error.message} Reload the page to try again.`;
    }
  }

  paintBy(colouring) {
    const { by, name, groups, colours, ends, missing } = colouring;
    this.colouring = colouring;
    if (!this.isLost) this.painter.colour(groups, colours);
    if (!ends && this.filter.by !== by) this.showAll();
    for (const legend of this.figure.querySelectorAll("[data-map-legend]")) {
      legend.hidden = legend.dataset.mapLegend !== (ends ? "number" : by);
    }
    if (ends) {
      const [low, high] = ends.map(({ value }) => numeral(value));
      this.one("by").textContent = name;
      this.one("low").textContent = ends[0].isOpen ? `${low} or less` : low;
      this.one("high").textContent = ends[1].isOpen ? `${high} or more` : high;
      this.one("missing").textContent = missing ? `${missing.toLocaleString("en")} without a value` : "";
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

  // Reads a row out, rings it until another is read, and asks for its neighbors: they come by ``mark``.
  read(point) {
    this.rings = point < 0 ? [] : [{ point, strong: true }];
    this.paintOver();
    if (point < 0) return;
    this.tell(point);
    const find = this.one("find");
    find.elements.row.value = this.points.row(point);
    find.requestSubmit();
  }

  // Rings the row that the page tells of, and its neighbors.
  mark() {
    // Without a row, the rows nearest to a text are ringed.
    const { row, near } = { ...document.querySelector("#near-text")?.dataset, ...document.querySelector("#map-row")?.dataset };
    if (near === undefined) return;
    const rows = [...(row === undefined ? [] : [row]), ...near.split(" ").filter(Boolean)];
    const points = rows.map((one) => this.points.point(Number(one)));
    this.rings = points.map((point, i) => ({ point, strong: i === 0 && row !== undefined })).filter(({ point }) => point >= 0);
    this.paintOver();
    if (row !== undefined && points[0] >= 0) this.tell(points[0]);
  }

  async tell(point) {
    const { points } = this;
    this.told = point;
    const [x, y] = [points.xy[2 * point], points.xy[2 * point + 1]].map((one) => numeral(one * points.unit));
    const words = [`Row ${points.row(point).toLocaleString("en")}`, points.label(point)];
    words.push(this.colouring?.value?.(point), `at ${x}, ${y}`, `norm ${numeral(points.norm[point] * points.unit)}`);
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

  clear() {
    this.rings = [];
    this.choose(NONE);
  }

  choose(chosen) {
    this.selection.choose(chosen);
    if (!this.isLost) this.painter.mark(chosen);
    this.change();
  }

  move(how) {
    how();
    this.movedAt = performance.now();
    this.hasMoved = true;
    this.change();
  }

  resize() {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    this.ratio = devicePixelRatio;
    this.canvas.width = Math.round(width * this.ratio);
    this.canvas.height = Math.round(height * this.ratio);
    this.view.resize(width, height);
    this.change();
  }

  // Has everything drawn anew with the next frame.
  change() {
    if (this.isLost) return;
    this.isGoingOn = false;
    this.ask();
  }

  ask() {
    this.figure.dataset.drawn = "some";
    if (this.asked !== undefined) return;
    this.askedAt = performance.now();
    this.asked = requestAnimationFrame(() => this.frame());
  }

  frame() {
    this.asked = undefined;
    const rest = this.movedAt + REST_MS - performance.now();
    // A frame that comes late shows a move all the same.
    const isMoving = this.hasMoved || rest > 0;
    this.hasMoved = false;
    if (isMoving) this.painter.pace(performance.now() - this.askedAt);
    const ink = rgb(getComputedStyle(this.canvas).color);
    const { isGoingOn, ratio } = this;
    this.isGoingOn = this.painter.paint(this.view, { isMoving, isGoingOn, ink, ratio });
    this.paintOver();
    clearTimeout(this.resting);
    if (this.isGoingOn) this.ask();
    else if (isMoving && this.painter.hides) this.resting = setTimeout(() => this.change(), REST_MS);
    else this.figure.dataset.drawn = "all";
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
    pen.drawImage(this.canvas, 0, 0);
    const { canvas: over, left, top } = this.overlay;
    if (!over.hidden) pen.drawImage(over, left * this.ratio, top * this.ratio);
    const link = document.createElement("a");
    link.href = whole.toDataURL("image/png");
    link.download = name;
    link.click();
  }
}
