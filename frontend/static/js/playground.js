// The controls show where the cloud is. One that was moved by hand no longer follows the attributes that a swap changes;
// the one that is being moved is ahead of them.

document.addEventListener("htmx:after:swap", () => {
  for (const control of document.querySelector("#playground form").elements) {
    if (control === document.activeElement) continue;
    if (control.type === "range") control.value = control.defaultValue;
    for (const option of control.options ?? []) option.selected = option.defaultSelected;
  }
});
