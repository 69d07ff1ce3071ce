// Keys: "?" tells them, "/" goes to the search, "g" and a letter to a page. They can be switched off, since somebody
// who speaks to the machine types by accident.

const OFF = "isoscope-keys-off";
const LEADING_MS = 1200;
const dialog = document.querySelector("#keys");
const wanted = dialog.querySelector("input");
let leading = 0;

wanted.checked = localStorage.getItem(OFF) === null;
wanted.addEventListener("change", () => {
  if (wanted.checked) localStorage.removeItem(OFF);
  else localStorage.setItem(OFF, "1");
});

for (const opener of document.querySelectorAll("[data-keys]")) {
  opener.hidden = false;
  opener.addEventListener("click", () => dialog.showModal());
}

function search() {
  const field = [...document.querySelectorAll("input[type=search]")].find((one) => one.checkVisibility());
  if (!field) return false;
  field.focus();
  field.select();
  return true;
}

function pressed(key) {
  const led = Date.now() - leading < LEADING_MS;
  leading = 0;
  if (led) {
    const link = document.querySelector(`[data-go="${CSS.escape(key)}"]`);
    link?.click();
    return Boolean(link);
  }
  if (key === "/") return search();
  if (key === "?") dialog.showModal();
  if (key === "g") leading = Date.now();
  return key === "?" || key === "g";
}

document.addEventListener("keydown", (event) => {
  if (!wanted.checked || dialog.open || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input:not([type=checkbox], [type=radio]), textarea, select, [contenteditable]")) return;
  if (pressed(event.key)) event.preventDefault();
});
