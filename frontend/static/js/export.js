// A plot as a file: under its title, on white, in the page's faces, at a size that fits a paper's column.

import { plotlyFor } from "./plotly.js";

const WIDTH = 860;
const HEIGHT = 520;
const PNG_SCALE = 3;
const SVG = "http://www.w3.org/2000/svg";
// Pixels above the plot, and where the title stands there.
const TITLE = { height: 36, x: 8, y: 24, size: 16 };

export async function exportPlot({ data, layout }, format, name, title) {
  const plotly = await plotlyFor(data);
  const plot = await plotly.toImage(
    { data, layout: { ...layout, paper_bgcolor: "white", plot_bgcolor: "white" } },
    { format: "svg", width: WIDTH, height: HEIGHT },
  );
  const picture = titled(plot, title, layout.template.layout.font, await faces());
  const link = document.createElement("a");
  link.href = format === "png" ? await painted(picture) : picture;
  link.download = `${name}.${format}`;
  link.click();
}

// Pixels of CSS: the column of a paper, 3.25 inches, and both of its columns, 6.75; type as papers have it.
const SHEETS = {
  column: { width: 312, height: 236, type: 10 },
  page: { width: 648, height: 400, type: 12 },
};

// Prints the plot alone with its title and caption on a page of its own size, which the browser saves as a PDF: lines
// and letters stay what they are, and no server has to know the page's fonts.
export async function printPlot({ data, layout }, size, name, title, caption) {
  const { width, height, type } = SHEETS[size];
  const sheet = document.createElement("figure");
  sheet.className = `sheet sheet-${size} on-paper`;
  const plot = document.createElement("div");
  sheet.append(
    Object.assign(document.createElement("h3"), { textContent: title }),
    plot,
    Object.assign(document.createElement("figcaption"), { textContent: caption }),
  );
  document.body.append(sheet);
  const plotly = await plotlyFor(data);
  await plotly.newPlot(plot, data, { ...typeset(layout, type), width, height }, { staticPlot: true });
  const page = new CSSStyleSheet();
  page.replaceSync(`@page { size: ${width}px ${Math.ceil(sheet.getBoundingClientRect().height) + 2}px; margin: 0; }`);
  document.adoptedStyleSheets.push(page);
  const called = document.title;
  document.title = name;
  document.documentElement.classList.add("on-sheet");
  const restore = () => {
    document.documentElement.classList.remove("on-sheet");
    document.title = called;
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((one) => one !== page);
    plotly.purge(plot);
    sheet.remove();
  };
  addEventListener("afterprint", () => setTimeout(restore), { once: true });
  print();
}

function typeset(layout, size) {
  const whole = structuredClone(layout);
  const base = whole.template.layout;
  const font = { size };
  base.font = { ...base.font, ...font };
  base.legend = { ...base.legend, font };
  for (const axis of ["xaxis", "yaxis"]) base[axis] = { ...base[axis], tickfont: font, title: { ...base[axis].title, font } };
  for (const note of whole.annotations ?? []) note.font = { ...note.font, ...font };
  return whole;
}

// Not plotly's own title: a legend of several rows would lie on it. Put together as text: to parse it would apply its
// style attributes, which the policy of pages forbids.
function titled(plot, title, { color, family }, faces) {
  const source = decodeURIComponent(plot.slice(plot.indexOf(",") + 1));
  const height = HEIGHT + TITLE.height;
  const whole = `<svg xmlns="${SVG}" width="${WIDTH}" height="${height}" viewBox="0 0 ${WIDTH} ${height}">
<defs><style>${faces}</style></defs>
<rect width="${WIDTH}" height="${height}" fill="white"/>
<text x="${TITLE.x}" y="${TITLE.y}" fill="${escaped(color)}" font-family="${escaped(family)}" font-size="${TITLE.size}"
  font-weight="600">${escaped(title)}</text>
<g transform="translate(0 ${TITLE.height})">${source}</g>
</svg>`;
  return `data:image/svg+xml,${encodeURIComponent(whole)}`;
}

// The faces of the page, each with its file inside: a picture can ask for none.
async function faces() {
  const rules = [...document.styleSheets].flatMap(({ cssRules, href }) =>
    [...cssRules].filter((rule) => rule instanceof CSSFontFaceRule).map(({ cssText }) => ({ cssText, href })),
  );
  const inside = rules.map(async ({ cssText, href }) => {
    const [, address] = cssText.match(/url\("(.+?)"\)/);
    return cssText.replace(address, await dataUrl(new URL(address, href ?? document.baseURI)));
  });
  return (await Promise.all(inside)).join("\n");
}

async function dataUrl(address) {
  if (address.protocol === "data:") return address.href;
  const reader = new FileReader();
  reader.readAsDataURL(await (await fetch(address)).blob());
  await new Promise((resolve) => (reader.onload = resolve));
  return reader.result;
}

async function painted(source) {
  const picture = new Image();
  picture.src = source;
  await picture.decode();
  const canvas = document.createElement("canvas");
  canvas.width = WIDTH * PNG_SCALE;
  canvas.height = (HEIGHT + TITLE.height) * PNG_SCALE;
  canvas.getContext("2d").drawImage(picture, 0, 0, canvas.width, canvas.height);
  return canvas.toDataURL("image/png");
}

function escaped(text) {
  return new XMLSerializer().serializeToString(document.createTextNode(text)).replaceAll('"', "&quot;");
}
