// The plotly that draws a figure: the page's own, or all of it, three times as large, for what a graphics card draws.

import { needsCard } from "./webgl.js";

const small = window.Plotly;
// None where the page's own is the whole already.
const address = document.querySelector("script[data-whole]")?.dataset.whole;
let whole;

function fetchWhole() {
  const script = document.createElement("script");
  script.src = address;
  return new Promise((resolve, reject) => {
    script.onload = () => resolve(window.Plotly);
    script.onerror = () => {
      whole = undefined;
      script.remove();
      reject(new Error("What draws it could not be fetched."));
    };
    document.head.append(script);
  });
}

export async function plotlyFor(data) {
  if (!address || !needsCard(data)) return small;
  return (whole ??= fetchWhole());
}
