// The controls show where the cloud is. One that was moved by hand no longer follows the attributes that a swap changes
// until its form is reset; the one that is being moved is ahead of them.

document.addEventListener("htmx:before:swap", (event) => {
  const form = event.target.closest("#playground")?.querySelector("form");
  if (!form) return;
  const moved = form.contains(document.activeElement) ? document.activeElement : null;
  const value = moved?.value;
  form.reset();
  if (moved) moved.value = value;
});
