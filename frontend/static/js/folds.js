// Opens the closed folds around what an address leads to, in browsers that do not do so by themselves, and around fields
// that a renewed form shows as wrong.

function openFolds(inside) {
  for (let fold = inside; (fold = fold.parentElement?.closest("details")); ) fold.open = true;
}

function openTarget() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!target) return;
  openFolds(target);
  target.scrollIntoView();
}

addEventListener("hashchange", openTarget);
document.addEventListener("htmx:after:swap", ({ target }) => target.querySelectorAll("[aria-invalid]").forEach(openFolds));
openTarget();
