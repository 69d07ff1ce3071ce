// While the sweep form is filled in, the plan beside it says which field is wrong. Here that field is marked, as the
// server marks it in a page of its own, and every other one is cleared.

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
  const small = Object.assign(document.createElement("small"), { className: "error", textContent: sentence });
  small.id = (row ? "grid" : field) + ERROR;
  const group = row ? form.querySelector("#grid") : control;
  if (group.matches("fieldset, [role=group]")) group.append(small);
  else group.closest(".field, .flag")?.append(small);
  control.setAttribute("aria-invalid", "true");
  control.setAttribute("aria-describedby", [...described(control), small.id].join(" "));
}

document.addEventListener("htmx:after:swap", () => {
  const form = document.querySelector("#sweep");
  const plan = form?.querySelector("#plan");
  if (!plan) return;
  clear(form);
  if (plan.dataset.wrong) mark(form, plan.dataset.wrong, plan.dataset.sentence);
});
