// A link to what is inside a closed fold opens it, in browsers that do not do so by themselves.

export function openFolds(inside) {
  for (let fold = inside; (fold = fold.parentElement?.closest("details")); ) fold.open = true;
}

function openTarget() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!target) return;
  openFolds(target);
  target.scrollIntoView();
}

addEventListener("hashchange", openTarget);
openTarget();
