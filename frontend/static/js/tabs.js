// On a narrow screen navigation and tabs scroll sideways: where one is there is moved into view, with a part of the tab
// before it, so that it is seen that there are others on both sides.

const ROOM = 48;

for (const current of document.querySelectorAll(":is(.tabs, .masthead nav) > [aria-current]")) {
  const bar = current.parentElement;
  const start = current.offsetLeft - bar.offsetLeft;
  if (start + current.offsetWidth > bar.clientWidth) bar.scrollLeft = start - ROOM;
}
