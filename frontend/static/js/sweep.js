// While the sweep form is filled in, the plan beside it says which fields are wrong. Here these are marked, as the
// server marks them in a page of their own, and every other one is cleared.

import { openFolds } from "./folds.js";

const ERROR = "-error";

const described = (control) => (control.getAttribute("aria-describedby") ?? "").split(" ").filter(Boolean);

function clear(form) {
  for (const sentence of form.querySelectorAll(`small.error[id$="${ERROR}"]`)) sentence.remove();
  for (const control of form.querySelectorAll("[aria-invalid]")) control.removeAttribute("aria-invalid");
  for (const control of form.querySelectorAll("[aria-describedby]")) {
    const kept = described(control).filter((id) => !id.endsWith(ERROR));
    if (kept.length) control.setAttribute("aria-describedby", kept.join(" "));
    else control.removeAttribute("aria-describedby");
  }
}

// A row of the grid is told beneath the grid, and what is wrong of a group within it.
function mark(form, field, sentence) {
  const row = field.match(/^grid-(\d+)$/);
  const control = form.querySelector(row ? `#grid-values-${row[1]}` : `#${CSS.escape(field)}`);
  if (!control) return;
  const id = (row ? "grid" : field) + ERROR;
  let small = document.getElementById(id);
  if (!small) {
    small = Object.assign(document.createElement("small"), { className: "error", id });
    const group = row ? form.querySelector("#grid") : control;
    if (group.matches("fieldset, [role=group]")) group.append(small);
    else group.closest(".field, .flag")?.append(small);
  }
  small.textContent = [small.textContent, sentence].filter(Boolean).join(" ");
  openFolds(control);
  control.setAttribute("aria-invalid", "true");
  control.setAttribute("aria-describedby", [...new Set([...described(control), id])].join(" "));
}

document.addEventListener("htmx:after:swap", () => {
  const form = document.querySelector("#sweep");
  const plan = form?.querySelector("#plan");
  if (!plan) return;
  clear(form);
  for (const told of plan.querySelectorAll("[data-wrong]")) mark(form, told.dataset.wrong, told.textContent);
});
