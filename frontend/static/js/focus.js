// A part of the page that is renewed may come without what had the focus, as a button that is no longer of use. Then
// the focus goes to what stands beside it, and not back to the top of the page.

const FOCUSABLE = "a[href], button, select, textarea, input:not([type=hidden])";
let around = [];

document.addEventListener("htmx:before:swap", () => {
  around = [];
  for (let part = document.activeElement; (part = part?.parentElement?.closest("[id]")); ) around.push(part.id);
});

document.addEventListener("htmx:after:swap", () => {
  if (document.activeElement !== document.body) return;
  const kept = around.map((id) => document.querySelector(`#${CSS.escape(id)}`)?.querySelector(FOCUSABLE));
  kept.find(Boolean)?.focus({ preventScroll: true });
});
