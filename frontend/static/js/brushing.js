// What is brushed in parallel coordinates, written into the search of the runs, which then finds it.

// The roundest number that parts the values as the end of a brush does.
function round(end, values) {
  for (let digits = 2; digits < 17; digits++) {
    const near = Number(end.toPrecision(digits));
    if (values.every((value) => value < near === value < end && value > near === value > end)) return near;
  }
  return end;
}

function between(field, low, high) {
  return low === high ? [`${field}:${low}`] : [`${field}>=${low}`, `${field}<=${high}`];
}

// Plotly snaps a brush to places up to rounding: one that ends at the first may begin at 3e-17.
const SNAP = 1e-6;

// An axis as terms of the search; none where it is not brushed, or no search can say what it holds.
function terms({ name, values, constraintrange }, steps) {
  if (!name || !constraintrange) return [];
  const [low, high] = constraintrange;
  if (!steps.length) return between(name, round(low, values), round(high, values));
  const kept = steps.filter((_, place) => place >= low - SNAP && place <= high + SNAP);
  if (!kept.length || kept.length === steps.length || kept.includes(null)) return [];
  if (kept.every(Number.isFinite)) return between(name, kept[0], kept.at(-1));
  return [`${name}:${kept.map((value) => JSON.stringify(String(value))).join(",")}`];
}

const written = new WeakMap();

// What a person has typed: all but what the brushes wrote at its end. Their words may also be a part of what was typed.
function typedBefore(text, words) {
  const kept = text.slice(0, text.length - words.length);
  return words && text.endsWith(words) && /(^|\s)$/.test(kept) ? kept.trim() : text;
}

// Puts the brushes in the place of those before, beside what a person has typed, and has the search made.
export function brushed(plot) {
  const search = document.querySelector("form#run-search input[name=q]");
  const [{ dimensions, meta }] = plot.data;
  if (!search || !dimensions) return;
  const words = dimensions.flatMap((axis, place) => terms(axis, meta.steps[place])).join(" ");
  const typed = typedBefore(search.value.trim(), written.get(plot) ?? "");
  written.set(plot, words);
  search.value = [typed, words].filter(Boolean).join(" ");
  search.dispatchEvent(new Event("change", { bubbles: true }));
}
