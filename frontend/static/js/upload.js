// Upload forms: the drop zone lights up, files over the cap are refused before they travel, progress is shown
// and can be stopped. Without this file the same form is posted by the browser.

const UNITS = ["bytes", "kB", "MB", "GB", "TB"];

// As isoscope/core/formatting.py writes sizes: 9.61 MB.
function size(bytes) {
  const unit = bytes < 1000 ? 0 : Math.min(Math.floor(Math.log10(bytes) / 3), UNITS.length - 1);
  return unit ? `${Number((bytes / 1000 ** unit).toPrecision(3))} ${UNITS[unit]}` : `${bytes} ${UNITS[0]}`;
}

const inputsOf = (form) => [...form.querySelectorAll("input[type=file]")];

// One input may have a cap of its own, or all inputs of a form one together.
function check(input) {
  const { form } = input;
  const isAlone = "maxBytes" in input.dataset;
  const { maxBytes, maxText } = isAlone ? input.dataset : form.dataset;
  const together = isAlone ? [input] : inputsOf(form);
  const files = together.flatMap((one) => [...one.files]);
  const bytes = files.reduce((sum, file) => sum + file.size, 0);
  const what = files.length === 1 ? `${files[0].name} has ${size(bytes)}` : `The ${files.length} files have ${size(bytes)} together`;
  const problem = bytes > Number(maxBytes) ? `${what}, the limit is ${maxText}. Choose less.` : "";
  for (const one of together) {
    one.setCustomValidity(one === input ? problem : "");
    one.toggleAttribute("aria-invalid", false);
  }
  if (problem) input.setAttribute("aria-invalid", "true");
  const other = inputsOf(form).find((one) => one.validity.customError);
  fail(form, problem || (other?.validationMessage ?? ""));
}

function show(form, isSending) {
  form.querySelector("[data-upload-bar]").hidden = !isSending;
  form.querySelector("button:not([type=button])").hidden = isSending;
  form.setAttribute("aria-busy", String(isSending));
}

function fail(form, sentence) {
  const error = form.querySelector("[data-upload-error]");
  error.textContent = sentence;
  error.hidden = !sentence;
}

// The server's page says at its field what is wrong; files that were chosen stay chosen.
function refuse(page, form) {
  document.querySelector("main").replaceWith(page.querySelector("main"));
  for (const { name, files } of inputsOf(form)) {
    const input = document.querySelector(`main form[data-upload] input[type=file][name="${name}"]`);
    if (input && files.length) input.files = files;
  }
  document.querySelector("main [aria-invalid]")?.focus();
}

function send(form) {
  const request = new XMLHttpRequest();
  const progress = form.querySelector("progress");
  const sent = form.querySelector("[data-upload-sent]");
  const cancel = form.querySelector("[data-upload-cancel]");

  request.upload.addEventListener("progress", ({ loaded, total }) => {
    const isSent = loaded === total;
    if (isSent) progress.removeAttribute("value");
    else progress.value = loaded / total;
    cancel.hidden = isSent; // what the server has it may keep
    sent.textContent = isSent ? `All ${size(total)} sent. The server is storing them.` : `${size(loaded)} of ${size(total)} sent`;
  });
  let again;
  request.addEventListener("load", () => {
    const seconds = Number(request.getResponseHeader("Retry-After"));
    if (request.status === 429 && seconds) {
      sent.textContent = "The server is busy with other uploads. This one is sent again in a moment.";
      cancel.hidden = false;
      cancel.onclick = () => {
        clearTimeout(again);
        show(form, false);
        fail(form, "Cancelled: nothing was kept.");
      };
      // Not all at the same moment, or those who were sent away together come back together.
      again = setTimeout(() => send(form), 1000 * seconds * (1 + Math.random() / 2));
    } else if (request.status < 400) location.assign(request.responseURL);
    else if (request.response?.querySelector("main")) refuse(request.response, form);
    else fail(form, `The server answered with status ${request.status}. Try again.`);
  });
  request.addEventListener("error", () => fail(form, "The connection was lost, or the server stopped reading. Try again."));
  request.addEventListener("abort", () => fail(form, "Cancelled: nothing was kept."));
  request.addEventListener("loadend", () => {
    if ((request.status > 0 && request.status < 400) || request.status === 429) return;
    show(form, false);
    form.querySelector("button:not([type=button])")?.focus();
  });
  cancel.onclick = () => request.abort();

  fail(form, "");
  cancel.hidden = false;
  progress.value = 0;
  sent.textContent = "";
  show(form, true);
  request.open("POST", form.action);
  request.setRequestHeader("Accept", "text/html");
  request.responseType = "document";
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
