// The sliders of the lab. Each changes the number box beside it and follows it. The form sends the box.

const DIGITS = 2;

document.addEventListener("input", ({ target }) => {
  if (target.matches("[data-dial]")) {
    const box = document.getElementById(target.dataset.dial);
    box.value = "log" in target.dataset ? Number((10 ** target.value).toPrecision(DIGITS)) : target.value;
    return;
  }
  const slider = document.querySelector(`[data-dial="${target.id}"]`);
  if (slider && target.value !== "") {
    slider.value = "log" in slider.dataset ? Math.log10(Math.max(target.value, Number.MIN_VALUE)) : target.value;
  }
});
