// A file dropped anywhere on the page goes into its upload form, which is sent at once. The form's own fields take what
// is dropped on them as ever.

const formOf = () => document.querySelector("form[data-drop]");
const isOurs = ({ target, dataTransfer }) =>
  formOf() !== null && dataTransfer?.types.includes("Files") && !target.matches?.("input[type=file]");
const light = (isOver) => document.documentElement.classList.toggle("dropping", isOver);

document.addEventListener("dragover", (event) => {
  light(isOurs(event));
  if (isOurs(event)) event.preventDefault();
});

document.addEventListener("dragleave", ({ relatedTarget }) => {
  if (relatedTarget === null) light(false);
});

document.addEventListener("drop", (event) => {
  light(false);
  if (!isOurs(event)) return;
  event.preventDefault();
  const form = formOf();
  const input = form.querySelector("input[type=file]");
  form.hidden = false;
  input.files = event.dataTransfer.files;
  input.dispatchEvent(new Event("change", { bubbles: true })); // upload.js looks at the size
  if (form.checkValidity()) form.requestSubmit();
  else form.scrollIntoView({ block: "center" });
});

for (const hint of document.querySelectorAll("[data-drop-hint]")) hint.hidden = false;
