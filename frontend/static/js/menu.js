// An open menu closes when a file in it is chosen, when something else is clicked or focused, and by Escape, which
// returns the focus to its button: left open it would cover what lies below it.

const openMenus = () => document.querySelectorAll("details.menu[open]");

function closeOthers({ target, type }) {
  const chosen = type === "click" && target.closest("[data-export], [download]");
  for (const menu of openMenus()) menu.open = menu.contains(target) && !chosen;
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
