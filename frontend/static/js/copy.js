// Buttons that copy the text of another element. Without this file they are not shown: the text can be selected.

const SHOWN_MS = 1500;

// Told to who does not see the button change; there before it has words, so that these are read out.
const status = document.createElement("p");
status.className = "sr";
status.setAttribute("role", "status");
document.body.append(status);

function select(element) {
  const range = document.createRange();
  range.selectNodeContents(element);
  getSelection().removeAllRanges();
  getSelection().addRange(range);
}

// A page that came over plain http from another machine has no clipboard: there the text is selected, to be copied by hand.
async function copy(button) {
  const text = document.getElementById(button.dataset.copy);
  let told = "Copied";
  try {
    await navigator.clipboard.writeText(text.textContent);
  } catch {
    select(text);
    told = "Selected";
  }
  button.textContent = status.textContent = told;
  setTimeout(() => { button.textContent = "Copy"; status.textContent = ""; }, SHOWN_MS);
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-copy]");
  if (button) copy(button);
});
