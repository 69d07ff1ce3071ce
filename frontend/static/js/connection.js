// What to do when a part of the page asked for news and got none.

const [outage, signedOut] = ["#connection", "#signed-out"].map((id) => document.querySelector(id));

// No answer: say so until there is one again.
document.addEventListener("htmx:error", ({ detail }) => {
  if (detail.ctx && !detail.ctx.response) outage.hidden = false;
});

// Whoever was signed out keeps the page and what is typed there, until another tab has signed in.
// Another answer without the part that was asked for: the thing is gone, which a reload shows. A failure of the server
// is left to the next request.
document.addEventListener("htmx:after:request", (event) => {
  const { select, text, response } = event.detail.ctx;
  outage.hidden = true;
  signedOut.hidden = response.status !== 401;
  if (signedOut.hidden && (!select || text.includes(`id="${select.slice(1)}"`))) return;
  event.preventDefault();
  if (signedOut.hidden && response.status < 500) location.reload();
});
