// What is saved is what the address says now: a page changes it without being loaded again.

document.addEventListener("submit", ({ target }) => {
  if (target.matches("[data-save-view]")) target.elements.query.value = location.search.slice(1);
});
