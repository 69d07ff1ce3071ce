// What is too faint in a drawn figure: each text and mark with its contrast to what it lies on, as the browser paints it.
(box) => {
  const TEXT = 4.5;
  const MARK = 3;
  const MARKS = {
    point: ".point",
    line: ".js-line",
    "error bar": ".errorbar path",
    shape: ".shapelayer path",
    key: ".legendsymbols path, .legendlines path",
    box: ".boxlayer path.box",
  };
  const WORDS = ".main-svg text";

  const parse = (color) => {
    const found = color.match(/^rgba?\(([^)]+)\)/)?.[1].split(/[ ,/]+/).map(Number);
    return found ? [...found.slice(0, 3), found[3] ?? 1] : [0, 0, 0, 0];
  };
  const over = ([r, g, b, a], [red, green, blue]) => [r * a + red * (1 - a), g * a + green * (1 - a), b * a + blue * (1 - a), 1];
  const luminance = (color) => {
    const [r, g, b] = color.map((part) => (part / 255 <= 0.04045 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (one, other) => {
    const [dark, light] = [luminance(one), luminance(other)].sort((a, b) => a - b);
    return (light + 0.05) / (dark + 0.05);
  };
  const hex = (color) => `#${color.slice(0, 3).map((part) => Math.round(part).toString(16).padStart(2, "0")).join("")}`;

  const paperOf = (element) => {
    let paper = [0, 0, 0, 0];
    for (let one = element; one && paper[3] < 1; one = one.parentElement) {
      const behind = parse(getComputedStyle(one).backgroundColor);
      if (behind[3] === 1) return behind;
    }
    return [255, 255, 255, 1];
  };
  const opacityOf = (element) => {
    let opacity = 1;
    for (let one = element; one && one !== box; one = one.parentElement) opacity *= Number(getComputedStyle(one).opacity);
    return opacity;
  };

  // The cell of a heat map that lies under the middle of an element, of the image that plotly makes of its cells.
  const cells = new Map();
  const cellUnder = (rectangle) => {
    const [x, y] = [rectangle.x + rectangle.width / 2, rectangle.y + rectangle.height / 2];
    // Cells reach beyond the axes, where they are cut off.
    const within = ({ left, right, top, bottom }) => x >= left && x < right && y >= top && y < bottom;
    if (![...box.querySelectorAll(".nsewdrag")].some((one) => within(one.getBoundingClientRect()))) return null;
    for (const image of box.querySelectorAll(".heatmaplayer image, .imagelayer image")) {
      const place = image.getBoundingClientRect();
      if (!within(place)) continue;
      if (!cells.has(image)) return null;
      const { width, height, pixels } = cells.get(image);
      const column = Math.floor(((x - place.left) / place.width) * width);
      const row = Math.floor(((y - place.top) / place.height) * height);
      return [...pixels.slice(4 * (row * width + column), 4 * (row * width + column) + 3), 1];
    }
    return null;
  };
  const read = async (image) => {
    const picture = new Image();
    picture.src = image.getAttribute("href") ?? image.getAttribute("xlink:href");
    await picture.decode();
    const canvas = document.createElement("canvas");
    const [width, height] = [(canvas.width = picture.width), (canvas.height = picture.height)];
    const pen = canvas.getContext("2d");
    pen.drawImage(picture, 0, 0);
    cells.set(image, { width, height, pixels: pen.getImageData(0, 0, width, height).data });
  };

  const faint = new Set();
  const paper = paperOf(box);
  const tell = (what, color, least, under) => {
    const found = contrast(color, under);
    if (found < least) faint.add(`${what} ${hex(color)} on ${hex(under)}: ${found.toFixed(2)}, expected ${least}`);
  };
  const paints = (element) => {
    const style = getComputedStyle(element);
    const opacity = opacityOf(element);
    const paint = (color, alpha) => {
      const [r, g, b, a] = parse(color);
      return [r, g, b, a * Number(alpha) * opacity];
    };
    const stroke = parseFloat(style.strokeWidth) > 0 ? [paint(style.stroke, style.strokeOpacity)] : [];
    return [paint(style.fill, style.fillOpacity), ...stroke].filter(([, , , alpha]) => alpha > 0);
  };

  const look = () => {
    for (const words of box.querySelectorAll(WORDS)) {
      if (!words.textContent.trim() || words.closest(".hoverlayer")) continue;
      const style = getComputedStyle(words);
      const rectangle = words.getBoundingClientRect();
      if (!rectangle.width || style.visibility === "hidden") continue;
      const under = cellUnder(rectangle) ?? paper;
      const [r, g, b, a] = parse(style.fill);
      const ink = [r, g, b, a * Number(style.fillOpacity) * opacityOf(words)];
      if (ink[3]) tell(`text “${words.textContent.slice(0, 24)}”`, over(ink, under), TEXT, under);
    }
    for (const [what, selector] of Object.entries(MARKS)) {
      for (const mark of box.querySelectorAll(selector)) {
        // A mark is told by its edge or by what fills it: one of both is enough.
        const seen = paints(mark).map((color) => over(color, paper));
        const best = seen.sort((one, other) => contrast(other, paper) - contrast(one, paper))[0];
        if (best) tell(what, best, MARK, paper);
      }
    }
    const shown = (box.querySelector(".js-plotly-plot")?._fullData ?? []).filter(({ visible }) => visible === true);
    for (const trace of shown.filter(({ type }) => ["scattergl", "scatter3d", "parcoords"].includes(type))) {
      const { color, colorscale, opacity = 1 } = trace.marker ?? trace.line;
      for (const one of typeof color === "string" ? [color] : (colorscale ?? []).map(([, step]) => step)) {
        const probe = Object.assign(document.createElement("i"), {});
        probe.style.color = one;
        box.append(probe);
        const [r, g, b, a] = parse(getComputedStyle(probe).color);
        probe.remove();
        if (a) tell(`${trace.type}`, over([r, g, b, a * opacity * (trace.opacity ?? 1)], paper), MARK, paper);
      }
    }
  };

  const hover = () => {
    const plot = box.querySelector(".js-plotly-plot");
    const told = (plot?._fullData ?? []).filter(
      ({ visible, hoverinfo, type }) => visible === true && hoverinfo !== "skip" && !["scatter3d", "parcoords"].includes(type),
    );
    const first = ({ x, y }) => [...(x ?? [])].findIndex((value, place) => value !== null && y?.[place] !== null);
    for (const trace of told.filter((one) => one.type === "heatmap" || first(one) >= 0).slice(0, 3)) {
      const pointNumber = trace.type === "heatmap" ? [0, 0] : first(trace);
      Plotly.Fx.hover(plot, [{ curveNumber: trace.index, pointNumber }], [(trace.xaxis ?? "x") + (trace.yaxis ?? "y")]);
      for (const label of plot.querySelectorAll(".hoverlayer .hovertext")) {
        const under = over(paints(label.querySelector("path"))[0] ?? paper, paper);
        for (const words of label.querySelectorAll("text")) {
          if (words.textContent) tell(`hover “${words.textContent.slice(0, 24)}”`, over(paints(words)[0], under), TEXT, under);
        }
      }
      Plotly.Fx.unhover(plot);
    }
  };

  return Promise.all([...box.querySelectorAll(".heatmaplayer image")].map(read)).then(() => {
    look();
    hover();
    return [...faint];
  });
}
