// The page's colors and fonts for plotly, read from the stylesheet: see .plot in app.css. The paper of a plot is
// transparent, so that a label over its marks has a color of its own.

export function themeOf(element) {
  const style = getComputedStyle(element);
  return {
    text: style.color,
    paper: style.backgroundColor,
    axis: style.outlineColor,
    grid: style.borderTopColor,
    label: style.columnRuleColor,
    ink: style.caretColor,
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
  const font = { ...base.font, color: theme.ink };
  base.hoverlabel = { ...base.hoverlabel, bgcolor: theme.label, bordercolor: theme.axis, font };
  for (const axis of [base.xaxis, base.yaxis]) {
    Object.assign(axis, { gridcolor: theme.grid, linecolor: theme.axis, tickcolor: theme.axis });
  }
  base.scene = { ...base.scene };
  for (const axis of ["xaxis", "yaxis", "zaxis"]) {
    const lines = { gridcolor: theme.grid, linecolor: theme.axis, zerolinecolor: theme.axis, showbackground: false };
    base.scene[axis] = { ...base.scene[axis], ...lines };
  }
  return { data, layout };
}
