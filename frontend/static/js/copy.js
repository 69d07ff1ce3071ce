// Buttons that copy the text of another element. Without this file they are not shown: the text can be selected.

const SHOWN_MS = 1500;

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
  button.textContent = told;
  setTimeout(() => { button.textContent = "Copy"; }, SHOWN_MS);
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-copy]");
  if (button) copy(button);
});
