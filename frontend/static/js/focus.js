// A part of the page that is renewed loses the focus when what had it is moved, or is no longer there, as a button that
// is of no more use. Then it is given back, or to what stands beside, and does not begin at the top of the page again.

const FOCUSABLE = "a[href], button, select, textarea, input:not([type=hidden])";
let had = null;
let around = [];

document.addEventListener("htmx:before:swap", () => {
  had = document.activeElement;
  around = [];
  for (let part = had; (part = part?.parentElement?.closest("[id]")); ) around.push(part.id);
});

document.addEventListener("htmx:after:swap", () => {
  if (document.activeElement !== document.body) return;
  const beside = around.map((id) => document.querySelector(`#${CSS.escape(id)}`)?.querySelector(FOCUSABLE));
  const next = had?.isConnected && had !== document.body ? had : beside.find(Boolean);
  next?.focus({ preventScroll: true });
});
