// Upload forms: the drop zone lights up, a file over the cap is refused before it travels, progress is shown.

function check(input) {
  const cap = Number(input.dataset.maxBytes);
  const file = input.files[0];
  const tooLarge = file && file.size > cap;
  input.setCustomValidity(tooLarge ? `${file.name} is larger than ${input.dataset.maxText}. Choose a smaller file.` : "");
  if (tooLarge) input.reportValidity();
}

function send(form) {
  const progress = form.querySelector("progress");
  const request = new XMLHttpRequest();
  request.open("POST", form.action);
  request.setRequestHeader("Accept", "text/html");
  request.responseType = "document";
  request.upload.addEventListener("progress", (event) => {
    progress.hidden = false;
    if (event.lengthComputable) progress.value = event.loaded / event.total;
    if (event.loaded === event.total) progress.removeAttribute("value");
  });
  request.addEventListener("load", () => {
    if (request.status < 400) location.assign(request.responseURL);
    else document.querySelector("main").replaceWith(request.response.querySelector("main"));
  });
  request.addEventListener("error", () => form.submit());
  form.querySelectorAll("button").forEach((button) => { button.disabled = true; });
  form.setAttribute("aria-busy", "true");
  request.send(new FormData(form));
}

document.addEventListener("change", ({ target }) => {
  if (target.matches("input[type=file]")) check(target);
});

for (const [name, over] of [["dragenter", true], ["dragleave", false], ["drop", false]]) {
  document.addEventListener(name, ({ target }) => {
    if (target.matches?.("input[type=file]")) target.classList.toggle("over", over);
  });
}

document.addEventListener("submit", (event) => {
  if (!event.target.matches("form[data-upload]")) return;
  event.preventDefault();
  send(event.target);
});
