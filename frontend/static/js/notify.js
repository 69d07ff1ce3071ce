// Tells by a notification that an experiment has ended, for those who asked for it, while its page is open.

const KEY = "isoscope-notify";
const asked = () => new Set(JSON.parse(localStorage.getItem(KEY) ?? "[]"));
const keep = (ids) => localStorage.setItem(KEY, JSON.stringify([...ids].slice(-50)));

function label(button) {
  button.textContent = asked().has(button.dataset.notify) ? "Notification on. Keep this page open." : "Notify me when it ends";
  button.hidden = false;
}

function look() {
  const experiment = document.querySelector("#experiment");
  const button = document.querySelector("[data-notify]");
  if (button) label(button);
  const id = location.pathname.split("/")[2];
  if (!experiment?.dataset.ended || !asked().has(id)) return;
  keep([...asked()].filter((one) => one !== id));
  new Notification(`${experiment.dataset.name} has ended`, { body: experiment.dataset.ended, tag: id });
}

if ("Notification" in window) {
  document.addEventListener("click", async ({ target }) => {
    if (!target.matches?.("[data-notify]")) return;
    const id = target.dataset.notify;
    const ids = asked();
    if (ids.delete(id)) keep(ids);
    else if ((await Notification.requestPermission()) === "granted") keep([...ids, id]);
    else {
      const note = target.parentElement.querySelector("[data-notify] + small") ?? document.createElement("small");
      note.textContent = "This browser blocks notifications.";
      target.after(note);
    }
    label(target);
  });
  document.addEventListener("htmx:after:swap", look);
  look();
}
