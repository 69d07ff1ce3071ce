import re

from playwright.sync_api import expect


def test_every_layer_is_judged_by_one_task_and_drawn_in_one_figure(dashboard, measured, page):
    layers = [layer["embedding_id"] for layer in dashboard.get(f"/api/encodings/{measured['encoding']}/layers")]
    page.goto(f"{dashboard.url}/embeddings/{layers[0]}/tasks?kind=labels")
    page.get_by_role("button", name="Compare variants").click()
    family = page.get_by_role("region", name="Isotropy over embeddings")
    expect(family).to_be_visible(timeout=240_000)
    expect(family.get_by_text(f"{len(layers) - 1} more layers")).to_be_visible()
    family.get_by_role("button", name="Judge every layer").click()

    expect(page).to_have_url(re.compile("/tasks/[0-9a-f]{32}#family"))
    expect(family.get_by_text("being judged")).to_be_hidden(timeout=240_000)
    expect(page.locator("#figure-embeddings .js-plotly-plot")).to_be_visible()
    table = family.get_by_role("region", name="Embeddings judged by this task")
    expect(table.get_by_role("row")).to_have_count(len(layers) + 2)
    expect(family.get_by_role("button", name="Judge every layer")).to_be_hidden()
    table.get_by_role("link", name=re.compile("layer 2, mean")).click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("layer 2, mean")
    expect(page.locator("#figure-embeddings")).to_be_visible()
