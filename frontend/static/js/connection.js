// What to do when a part of the page asked for news and got none.

const notice = document.querySelector("#connection");

// No answer: say so until there is one again.
document.addEventListener("htmx:error", ({ detail }) => {
  if (detail.ctx && !detail.ctx.response) notice.hidden = false;
});

// An answer without the part that was asked for: the thing is gone, or one has to sign in. A reload shows which.
// A failure of the server is left to the next request.
document.addEventListener("htmx:after:request", (event) => {
  notice.hidden = true;
  const { select, text, response } = event.detail.ctx;
  if (!select || text.includes(`id="${select.slice(1)}"`)) return;
  event.preventDefault();
  if (response.status < 500) location.reload();
});
