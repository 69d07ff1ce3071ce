// A plot as a file: under its title, on white, in the page's fonts, at a size that fits a paper's column.

const WIDTH = 860;
const HEIGHT = 520;
const PNG_SCALE = 3;
const SVG = "http://www.w3.org/2000/svg";
// Pixels above the plot, and where the title stands there.
const TITLE = { height: 36, x: 8, y: 24, size: 16 };

export async function exportPlot({ data, layout }, format, name, title) {
  const scale = format === "png" ? PNG_SCALE : 1;
  const plot = await Plotly.toImage(
    { data, layout: { ...layout, paper_bgcolor: "white", plot_bgcolor: "white" } },
    { format, width: WIDTH, height: HEIGHT, scale },
  );
  const { color, family } = layout.template.layout.font;
  const link = document.createElement("a");
  link.href = await (format === "png" ? titledPng : titledSvg)(plot, title, color, family);
  link.download = `${name}.${format}`;
  link.click();
}

// Not plotly's own title: a legend of several rows would lie on it.
async function titledPng(plot, title, color, family) {
  const picture = new Image();
  picture.src = plot;
  await picture.decode();
  const canvas = document.createElement("canvas");
  canvas.width = picture.width;
  canvas.height = picture.height + TITLE.height * PNG_SCALE;
  const pen = canvas.getContext("2d");
  pen.fillStyle = "white";
  pen.fillRect(0, 0, canvas.width, canvas.height);
  pen.drawImage(picture, 0, TITLE.height * PNG_SCALE);
  pen.fillStyle = color;
  pen.font = `600 ${TITLE.size * PNG_SCALE}px ${family}`;
  pen.fillText(title, TITLE.x * PNG_SCALE, TITLE.y * PNG_SCALE);
  return canvas.toDataURL("image/png");
}

// Put together as text: to parse it would apply its style attributes, which the policy of pages forbids.
function titledSvg(plot, title, color, family) {
  const source = decodeURIComponent(plot.slice(plot.indexOf(",") + 1));
  const height = HEIGHT + TITLE.height;
  const whole = `<svg xmlns="${SVG}" width="${WIDTH}" height="${height}" viewBox="0 0 ${WIDTH} ${height}">
<rect width="${WIDTH}" height="${height}" fill="white"/>
<text x="${TITLE.x}" y="${TITLE.y}" fill="${escaped(color)}" font-family="${escaped(family)}" font-size="${TITLE.size}"
  font-weight="600">${escaped(title)}</text>
<g transform="translate(0 ${TITLE.height})">${source}</g>
</svg>`;
  return `data:image/svg+xml,${encodeURIComponent(whole)}`;
}

function escaped(text) {
  return new XMLSerializer().serializeToString(document.createTextNode(text)).replaceAll('"', "&quot;");
}
