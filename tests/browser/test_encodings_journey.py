import re

import pytest
from playwright.sync_api import expect

from tests.tiny import make_table


@pytest.mark.long
def test_texts_are_encoded_and_read_by_layer(dashboard, page, tmp_path):
    (texts := tmp_path / "reviews.tsv").write_bytes(make_table(40, 1))
    page.goto(f"{dashboard.url}/embeddings")
    page.get_by_role("link", name="Encodings").click()
    page.get_by_label("A file of texts").set_input_files(texts)
    page.get_by_role("button", name="Upload and choose a model").click()

    expect(page.get_by_label("Text columns", exact=True)).to_have_value("sentence")
    expect(page.locator("#plan strong")).to_have_text("7 embeddings")
    page.get_by_label("Model", exact=True).fill("tiny-gpt2")
    page.get_by_label("last token").check()
    expect(page.locator("#plan strong")).to_have_text("6 embeddings")
    page.get_by_role("button", name="Encode").click()

    expect(page.get_by_role("button", name="Compare layers")).to_be_visible(timeout=240_000)
    expect(page.get_by_text("encoded, measuring")).to_be_hidden(timeout=240_000)
    expect(page.locator("#figure-heat-map .js-plotly-plot")).to_be_visible()
    expect(page.locator("#figure-by-layer .js-plotly-plot")).to_be_visible()
    page.get_by_label("Measure by layer").select_option("Uniformity")
    expect(page).to_have_url(re.compile("by=uniformity"))
    expect(page.get_by_role("heading", name="Uniformity by layer")).to_be_visible()

    page.get_by_role("link", name="last token", exact=True).click()
    expect(page).to_have_url(re.compile("pooling=last"))
    row = page.get_by_role("region", name="Measures by layer").get_by_role("row", name="Layer 1")
    row.get_by_role("cell").nth(0).get_by_role("link").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("reviews · tiny-gpt2 · layer 1, last")
    expect(page.get_by_text("Layer 1 of 2, last token")).to_be_visible()
    page.get_by_role("link", name="next layer").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("reviews · tiny-gpt2 · layer 2, last")
    page.get_by_role("navigation", name="Layers of reviews").get_by_role("link", name="reviews").click()
    expect(page).to_have_url(re.compile("/encodings/.*pooling=last"))


@pytest.mark.long
def test_task_evaluates_every_layer_in_one_figure(dashboard, measured, page):
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
