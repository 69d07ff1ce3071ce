// Which part of the plane a map shows: the middle, and pixels of CSS to a unit, the same along both axes.

const MARGIN = 0.92;
const MOST_ZOOM = 4000;
const LEAST_ZOOM = 0.5;

export class View {
  constructor(bounds) {
    this.bounds = bounds;
    this.width = 1;
    this.height = 1;
    this.zoom = 1;
    this.x = (bounds.left + bounds.right) / 2;
    this.y = (bounds.bottom + bounds.top) / 2;
  }

  resize(width, height) {
    this.width = Math.max(width, 1);
    this.height = Math.max(height, 1);
  }

  // Pixels to a unit where everything fits.
  get fitted() {
    const { left, right, bottom, top } = this.bounds;
    const scale = MARGIN * Math.min(this.width / (right - left), this.height / (top - bottom));
    return Number.isFinite(scale) ? scale : 1;
  }

  get scale() {
    return this.fitted * this.zoom;
  }

  fit() {
    const { left, right, bottom, top } = this.bounds;
    this.zoom = 1;
    this.x = (left + right) / 2;
    this.y = (bottom + top) / 2;
  }

  pan(pixelsRight, pixelsDown) {
    this.x -= pixelsRight / this.scale;
    this.y += pixelsDown / this.scale;
  }

  // Zooms by a factor; what lies at the pixel stays there.
  zoomAt(factor, [px, py]) {
    const [x, y] = this.place([px, py]);
    this.zoom = Math.min(Math.max(this.zoom * factor, LEAST_ZOOM), MOST_ZOOM);
    this.x = x - (px - this.width / 2) / this.scale;
    this.y = y + (py - this.height / 2) / this.scale;
  }

  // The place in the plane of a pixel, and back.
  place([px, py]) {
    return [this.x + (px - this.width / 2) / this.scale, this.y - (py - this.height / 2) / this.scale];
  }

  pixel(x, y) {
    return [(x - this.x) * this.scale + this.width / 2, (this.y - y) * this.scale + this.height / 2];
  }

  // The corners of what is shown, as a shape.
  corners() {
    const { width, height } = this;
    return [[0, 0], [width, 0], [width, height], [0, height]].map((pixel) => this.place(pixel));
  }

  // What turns a place into coordinates of the card, from -1 to 1.
  get transform() {
    const across = (2 * this.scale) / this.width;
    const up = (2 * this.scale) / this.height;
    return { scale: [across, up], offset: [-this.x * across, -this.y * up] };
  }
}
