// The reader's choice of theme, set before anything is painted. Without one, the system's is followed by the CSS.

const KEY = "isoscope-theme";
const root = document.documentElement;

function apply(theme) {
  if (theme === "light" || theme === "dark") root.dataset.theme = theme;
  else delete root.dataset.theme;
}

apply(localStorage.getItem(KEY));

document.addEventListener("DOMContentLoaded", () => {
  const select = document.querySelector("#theme");
  select.value = root.dataset.theme ?? "system";
  select.hidden = false;
  select.addEventListener("change", () => {
    localStorage.setItem(KEY, select.value);
    apply(select.value);
  });
});
