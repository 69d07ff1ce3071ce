// A plot as a file: on white, in the page's fonts, at a size that fits a paper's column.

const WIDTH = 860;
const HEIGHT = 520;
const PNG_SCALE = 3;

export async function exportPlot({ data, layout }, format, name) {
  const image = await Plotly.toImage(
    { data, layout: { ...layout, paper_bgcolor: "white", plot_bgcolor: "white" } },
    { format, width: WIDTH, height: HEIGHT, scale: format === "png" ? PNG_SCALE : 1 },
  );
  const link = document.createElement("a");
  link.href = image;
  link.download = `${name}.${format}`;
  link.click();
}
