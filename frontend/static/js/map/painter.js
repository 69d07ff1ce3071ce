// Draws points on a canvas by WebGL: all at once while they are few; of many the last picture at rest while the map moves,
// with a density where that does not reach, or where it was zoomed too far a density and a few of the points; and all of
// them in portions when it rests.

const POINTS = `#version 300 es
in vec2 place;
in uint group;
uniform vec2 scale, offset;
uniform float size;
uniform sampler2D palette;
flat out vec3 colour;
void main() {
  gl_Position = vec4(place * scale + offset, 0, 1);
  gl_PointSize = size;
  colour = texelFetch(palette, ivec2(int(group), 0), 0).rgb;
}`;
const DOT = `#version 300 es
precision highp float;
flat in vec3 colour;
uniform float opacity, size;
out vec4 painted;
void main() {
  float far = length(gl_PointCoord - .5) * size;
  float inside = size < 3. ? 1. : clamp(size * .5 + .5 - far, 0., 1.);
  if (inside == 0.) discard;
  painted = vec4(colour, 1) * (opacity * inside);
}`;
const SHEET = `#version 300 es
in vec2 corner;
uniform vec2 scale, offset;
uniform vec4 box;
out vec2 at;
void main() {
  at = corner;
  gl_Position = vec4((box.xy + corner * box.zw) * scale + offset, 0, 1);
}`;
const SHADE = `#version 300 es
precision highp float;
in vec2 at;
uniform sampler2D shades;
uniform vec3 ink;
out vec4 painted;
void main() { painted = vec4(ink, 1) * (texture(shades, at).r * .75); }`;
const PICTURE = `#version 300 es
precision highp float;
in vec2 at;
uniform sampler2D picture;
out vec4 painted;
void main() { painted = texture(picture, at); }`;

// Points up to which each frame draws all of them.
const FEW = 20_000;
// A picture that is shown larger or smaller than by this factor says too little.
const MOST_STRETCHED = 2.5;
const MOST_MOVING = 200_000;
const FIRST_MOVING = 50_000;
const LEAST_MOVING = 10_000;
const SLOW_MS = 50;
const FAST_MS = 22;
const PORTION = 250_000;
const COLOURS = 256;

function program(gl, vertex, fragment) {
  const made = gl.createProgram();
  for (const [kind, source] of [[gl.VERTEX_SHADER, vertex], [gl.FRAGMENT_SHADER, fragment]]) {
    const shader = gl.createShader(kind);
    gl.shaderSource(shader, source);
    gl.compileShader(shader);
    gl.attachShader(made, shader);
  }
  gl.linkProgram(made);
  if (!gl.getProgramParameter(made, gl.LINK_STATUS)) throw new Error(gl.getProgramInfoLog(made));
  const uniforms = gl.getProgramParameter(made, gl.ACTIVE_UNIFORMS);
  const names = Array.from({ length: uniforms }, (_, i) => gl.getActiveUniform(made, i).name);
  return { made, at: Object.fromEntries(names.map((name) => [name, gl.getUniformLocation(made, name)])) };
}

// Diameter in pixels and opacity of each of so many points on the screen.
function lookOf(count) {
  const size = Math.min(Math.max(26 * count ** -0.19, 2), 8);
  return { size, opacity: Math.min(Math.max(9 * count ** -0.27, 0.25), 0.85) };
}

export class Painter {
  // Null where the browser offers no WebGL 2.
  static on(canvas, points, grid) {
    const gl = canvas.getContext("webgl2", { antialias: false, preserveDrawingBuffer: true });
    return gl && new Painter(gl, points, grid);
  }

  constructor(gl, points, grid) {
    this.gl = gl;
    this.grid = grid;
    this.points = program(gl, POINTS, DOT);
    this.sheet = program(gl, SHEET, SHADE);
    this.shot = program(gl, SHEET, PICTURE);
    this.groups = gl.createBuffer();
    this.shown = { buffer: gl.createBuffer(), count: 0 };
    this.marked = { buffer: gl.createBuffer(), count: 0 };
    this.ofPoints = this.array(this.points, [["place", points.xy, 2], ["group", null, 1]]);
    this.ofSheet = this.array(this.sheet, [["corner", new Float32Array([0, 0, 1, 0, 0, 1, 1, 1]), 2]]);
    this.palette = this.texture(gl.NEAREST);
    this.picture = this.texture(gl.NEAREST);
    this.shades = this.texture(gl.LINEAR);
    gl.pixelStorei(gl.UNPACK_ALIGNMENT, 1);
    gl.texImage2D(gl.TEXTURE_2D, 0, gl.R8, grid.cells, grid.cells, 0, gl.RED, gl.UNSIGNED_BYTE, grid.shades());
    gl.enable(gl.BLEND);
    gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
    this.drawn = 0;
    this.hides = false;
    this.taken = null;
    this.moving = FIRST_MOVING;
  }

  array({ made }, attributes) {
    const { gl } = this;
    const array = gl.createVertexArray();
    gl.bindVertexArray(array);
    for (const [name, values, each] of attributes) {
      const at = gl.getAttribLocation(made, name);
      gl.bindBuffer(gl.ARRAY_BUFFER, values ? gl.createBuffer() : this.groups);
      if (values) gl.bufferData(gl.ARRAY_BUFFER, values, gl.STATIC_DRAW);
      gl.enableVertexAttribArray(at);
      if (values) gl.vertexAttribPointer(at, each, gl.FLOAT, false, 0, 0);
      else gl.vertexAttribIPointer(at, each, gl.UNSIGNED_BYTE, 0, 0);
    }
    return array;
  }

  texture(filter) {
    const { gl } = this;
    const texture = gl.createTexture();
    gl.bindTexture(gl.TEXTURE_2D, texture);
    gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MIN_FILTER, filter);
    gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MAG_FILTER, filter);
    gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_WRAP_S, gl.CLAMP_TO_EDGE);
    gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_WRAP_T, gl.CLAMP_TO_EDGE);
    return texture;
  }

  // Gives each point a group, and each group a color [r, g, b].
  colour(groups, colours) {
    const { gl } = this;
    gl.bindBuffer(gl.ARRAY_BUFFER, this.groups);
    gl.bufferData(gl.ARRAY_BUFFER, groups, gl.STATIC_DRAW);
    this.taken = null;
    const texels = new Uint8Array(4 * COLOURS);
    colours.forEach((colour, i) => texels.set([...colour, 255], 4 * i));
    gl.bindTexture(gl.TEXTURE_2D, this.palette);
    gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA, COLOURS, 1, 0, gl.RGBA, gl.UNSIGNED_BYTE, texels);
  }

  // Which points are drawn, in this order.
  show(order) {
    this.fill(this.shown, order);
  }

  // Which points stand out from the others; none for all alike.
  mark(chosen) {
    this.fill(this.marked, chosen);
  }

  fill(list, order) {
    const { gl } = this;
    gl.bindVertexArray(null);
    gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, list.buffer);
    gl.bufferData(gl.ELEMENT_ARRAY_BUFFER, order, gl.STATIC_DRAW);
    list.count = order.length;
    this.taken = null;
  }

  // Has a map that moves draw fewer points where a frame was late, and more where it was not.
  pace(late) {
    if (late > SLOW_MS) this.moving = Math.max(this.moving / 2, LEAST_MOVING);
    else if (late < FAST_MS) this.moving = Math.min(this.moving * 1.25, MOST_MOVING);
  }

  // Draws a frame; returns whether more of it is to come in a further one. ``hides`` says whether it leaves points out.
  paint(view, { isMoving, isGoingOn, ink, ratio }) {
    const { gl, shown, marked } = this;
    const isSome = isMoving && shown.count > Math.min(this.moving, FEW);
    if (!isGoingOn || isMoving) {
      gl.viewport(0, 0, gl.drawingBufferWidth, gl.drawingBufferHeight);
      gl.clearColor(0, 0, 0, 0);
      gl.clear(gl.COLOR_BUFFER_BIT);
      this.drawn = 0;
      this.hides = isSome;
      if (isSome && this.paintPicture(view, ink)) return false;
      if (isSome) this.paintDensity(view, ink);
    }
    const inView = Math.max(shown.count / Math.max(view.zoom, 1) ** 1.5, 200);
    const { size, opacity } = lookOf(inView);
    const until = Math.min(isMoving ? Math.round(this.moving) : this.drawn + PORTION, shown.count);
    this.paintPoints(view, shown, this.drawn, until, size * ratio, marked.count ? opacity * 0.3 : opacity);
    this.drawn = until;
    const isDone = isMoving || until === shown.count;
    if (isDone) this.paintPoints(view, marked, 0, marked.count, (size + 1) * ratio, Math.max(opacity, 0.7));
    if (isDone && !isMoving && shown.count > FEW) this.take(view);
    return !isDone;
  }

  // Keeps what is drawn, for as long as the same points have the same colors.
  take(view) {
    const { gl } = this;
    const { drawingBufferWidth: width, drawingBufferHeight: height } = gl;
    gl.bindTexture(gl.TEXTURE_2D, this.picture);
    gl.copyTexImage2D(gl.TEXTURE_2D, 0, gl.RGBA, 0, 0, width, height, 0);
    this.taken = { width, height, zoom: view.zoom, corners: [view.place([0, view.height]), view.place([view.width, 0])] };
  }

  // Draws the picture where the map has moved it, and the density around it; returns whether there is one that will do.
  paintPicture(view, ink) {
    const { gl, shot, taken } = this;
    const { drawingBufferWidth: width, drawingBufferHeight: height } = gl;
    if (!taken || taken.width !== width || taken.height !== height) return false;
    const stretched = view.zoom / taken.zoom;
    if (stretched > MOST_STRETCHED || stretched < 1 / MOST_STRETCHED) return false;
    const { scale, offset } = view.transform;
    const [[left, bottom], [right, top]] = taken.corners.map((corner) => corner.map((at, i) => at * scale[i] + offset[i]));
    const pixel = (at, all) => Math.min(Math.max(Math.round(((at + 1) / 2) * all), 0), all);
    const [west, east] = [left, right].map((at) => pixel(at, width));
    const [south, north] = [bottom, top].map((at) => pixel(at, height));
    const around = [
      [0, 0, west, height],
      [east, 0, width - east, height],
      [west, 0, east - west, south],
      [west, north, east - west, height - north],
    ];
    gl.enable(gl.SCISSOR_TEST);
    for (const strip of around.filter(([, , across, up]) => across > 0 && up > 0)) {
      gl.scissor(...strip);
      this.paintDensity(view, ink);
    }
    gl.disable(gl.SCISSOR_TEST);
    gl.disable(gl.BLEND);
    gl.useProgram(shot.made);
    gl.bindVertexArray(this.ofSheet);
    gl.bindTexture(gl.TEXTURE_2D, this.picture);
    gl.uniform2f(shot.at.scale, 1, 1);
    gl.uniform2f(shot.at.offset, 0, 0);
    gl.uniform4f(shot.at.box, left, bottom, right - left, top - bottom);
    gl.drawArrays(gl.TRIANGLE_STRIP, 0, 4);
    gl.enable(gl.BLEND);
    return true;
  }

  paintPoints(view, list, from, until, size, opacity) {
    const { gl, points } = this;
    if (until <= from) return;
    const { scale, offset } = view.transform;
    gl.useProgram(points.made);
    gl.bindVertexArray(this.ofPoints);
    gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, list.buffer);
    gl.bindTexture(gl.TEXTURE_2D, this.palette);
    gl.uniform2fv(points.at.scale, scale);
    gl.uniform2fv(points.at.offset, offset);
    gl.uniform1f(points.at.size, size);
    gl.uniform1f(points.at.opacity, opacity);
    gl.drawElements(gl.POINTS, until - from, gl.UNSIGNED_INT, 4 * from);
  }

  paintDensity(view, ink) {
    const { gl, sheet, grid } = this;
    const { scale, offset } = view.transform;
    gl.useProgram(sheet.made);
    gl.bindVertexArray(this.ofSheet);
    gl.bindTexture(gl.TEXTURE_2D, this.shades);
    gl.uniform2fv(sheet.at.scale, scale);
    gl.uniform2fv(sheet.at.offset, offset);
    gl.uniform4f(sheet.at.box, grid.left, grid.bottom, grid.width * grid.cells, grid.height * grid.cells);
    gl.uniform3fv(sheet.at.ink, ink.map((one) => one / 255));
    gl.drawArrays(gl.TRIANGLE_STRIP, 0, 4);
  }
}
