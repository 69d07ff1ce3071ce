import re

from playwright.sync_api import expect

DROP = """([name, text, place]) => {
  const moved = new DataTransfer();
  moved.items.add(new File([text], name));
  for (const kind of ["dragover", "drop"]) {
    const event = new DragEvent(kind, { dataTransfer: moved, bubbles: true, cancelable: true });
    document.querySelector(place).dispatchEvent(event);
    if (kind === "dragover" && !document.documentElement.classList.contains("dropping")) throw new Error("not lit");
  }
}"""
ROWS = "\n".join(",".join(str((7 * i + 3 * j) % 11 / 3) for j in range(4)) for i in range(60))


def test_dropped_file_is_uploaded_and_one_click_measures_it(dashboard, page):
    for path, place in (("/", "main"), ("/embeddings", "footer")):
        page.goto(dashboard.url + path)
        expect(page.locator("[data-drop-hint]")).to_be_visible()
        page.evaluate(DROP, ["dropped.csv", ROWS, place])
        expect(page).to_have_url(re.compile(r"/embeddings/[0-9a-f]{32}$"))
    page.get_by_role("button", name="Measure these embeddings").click()
    expect(page.get_by_role("heading", name="dropped")).to_be_visible()
    expect(page.locator(".tag.draft")).to_have_count(0)


def test_a_drop_on_a_field_of_the_form_is_left_to_the_field(dashboard, page):
    page.goto(f"{dashboard.url}/embeddings")
    lit = page.evaluate(
        """() => {
          const moved = new DataTransfer();
          moved.items.add(new File(["x"], "labels.csv"));
          const event = new DragEvent("dragover", { dataTransfer: moved, bubbles: true, cancelable: true });
          document.querySelector("input[name=annotations]").dispatchEvent(event);
          return document.documentElement.classList.contains("dropping");
        }"""
    )
    assert lit is False
