// The page's colours and fonts for plotly, read from the stylesheet: see .plot in app.css.

export function themeOf(element) {
  const style = getComputedStyle(element);
  return {
    text: style.color,
    paper: style.backgroundColor,
    axis: style.outlineColor,
    grid: style.borderTopColor,
    font: style.fontFamily,
  };
}

// The light theme on white, whatever the page's theme is.
export function onPaper() {
  const paper = document.createElement("div");
  paper.className = "plot on-paper";
  paper.hidden = true;
  document.body.append(paper);
  const theme = themeOf(paper);
  paper.remove();
  return theme;
}

export function themed(figure, theme) {
  const { data, layout } = structuredClone(figure);
  const base = layout.template.layout;
  Object.assign(base.font, { color: theme.text, family: theme.font });
  base.hoverlabel = { ...base.hoverlabel, bgcolor: theme.paper, bordercolor: theme.axis, font: { ...base.font } };
  for (const axis of [base.xaxis, base.yaxis]) {
    Object.assign(axis, { gridcolor: theme.grid, linecolor: theme.axis, tickcolor: theme.axis });
  }
  for (const axis of [layout.scene?.xaxis, layout.scene?.yaxis, layout.scene?.zaxis]) {
    if (axis) Object.assign(axis, { gridcolor: theme.grid, zerolinecolor: theme.axis });
  }
  return { data, layout };
}
