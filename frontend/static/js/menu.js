// An open menu closes when something else is clicked or focused, and by Escape, which returns the focus to its button:
// left open it would cover what lies below it.

const openMenus = () => document.querySelectorAll("details.menu[open]");

function closeOthers({ target }) {
  for (const menu of openMenus()) menu.open = menu.contains(target);
}

document.addEventListener("click", closeOthers);
document.addEventListener("focusin", closeOthers);

document.addEventListener("keydown", ({ key }) => {
  if (key !== "Escape") return;
  for (const menu of openMenus()) {
    menu.open = false;
    menu.querySelector("summary").focus();
  }
});
