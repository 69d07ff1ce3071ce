// Suggests the last of several tags that are parted by commas: a datalist by itself suggests the whole text only.

const field = document.querySelector("[data-tags]");
const options = [...(field?.list?.options ?? [])];
const tags = options.map((option) => option.value);

function suggest() {
  const before = field.value.slice(0, field.value.lastIndexOf(",") + 1);
  const typed = new Set(before.toLowerCase().split(",").map((tag) => tag.trim()));
  options.forEach((option, i) => {
    option.value = typed.has(tags[i].toLowerCase()) ? "" : `${before}${before && " "}${tags[i]}`;
  });
}

field?.addEventListener("input", suggest);
