"""Pages as axe sees them, in both themes and at two widths: nothing serious, nothing critical; and their keys."""

from collections.abc import Iterator

import numpy as np
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from tests.serving import Serving

PATHS = (
    "/",
    "/embeddings",
    "/embeddings/{embedding}",
    "/embeddings/{embedding}/lab?method=zca_whitening",
    "/compare",
    "/compare?id={embedding}&id={layer}",
    "/encodings",
    "/encodings/{encoding}",
    "/trash",
    "/measures",
    "/playground",
    "/playground?shape=line&spread=0&shift=0&n=8&view=flat",
    "/queue",
    "/experiments/new",
    "/datasets",
    "/nowhere",
)
GRAVE = ("serious", "critical")
LOOKS = (("light", 1280), ("dark", 390))
"""Colours do not depend on the width, nor what is where on the colours: two looks see all four."""


@pytest.fixture(scope="module")
def ids(serving_module: Serving) -> dict[str, str]:
    """Of a measured embedding with labels on which a method was tried, and of an encoding and one of its layers."""
    server = serving_module
    points = np.random.default_rng(0).normal(size=(300, 6))
    rows = [",".join([*(f"{value:.4f}" for value in row), f"class {i % 3}"]) for i, row in enumerate(points)]
    table = ("cloud.csv", "\n".join(["a,b,c,d,e,f,label", *rows]).encode())
    embedding = server.post("/api/embeddings?commit=auto", files={"file": table})["id"]
    texts = ("texts.txt", "\n".join(f"text {number}" for number in range(40)).encode())
    encoding = server.post("/api/encodings", files={"file": texts})["id"]
    chosen = {"model": "all-MiniLM-L6-v2", "text_columns": ["line"], "layers": [0, 6]}
    server.post(f"/api/encodings/{encoding}/launch", json=chosen)
    server.wait_for(lambda: status(server, embedding) == "ready", "measurements")
    trials = f"/api/embeddings/{embedding}/postprocessings"
    trial = server.post(trials, json={"method": "zca_whitening"})["id"]
    server.wait_for(lambda: server.get(f"{trials}/{trial}")["status"] == "ready", "a trial")
    server.wait_for(lambda: server.get(f"/api/encodings/{encoding}")["status"] == "finished", "an encoding")
    layers = [one["embedding_id"] for one in server.get(f"/api/encodings/{encoding}/layers")]
    server.wait_for(lambda: all(status(server, one) == "ready" for one in layers), "layers")
    return {"embedding": embedding, "encoding": encoding, "layer": layers[-1]}


def status(serving_module: Serving, embedding_id: str) -> str:
    return str(serving_module.get(f"/api/embeddings/{embedding_id}")["status"])


@pytest.fixture
def looking(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(reduced_motion="reduce")
    yield context.new_page()
    context.close()


def complaints(page: Page) -> list[str]:
    """What axe finds grave, with the elements it is about."""
    found = Axe().run(page).response["violations"]
    return [
        f"{one['id']} ({one['impact']}): {node['target']} {node['failureSummary']}"
        for one in found
        if one["impact"] in GRAVE
        for node in one["nodes"]
    ]


@pytest.mark.parametrize("path", PATHS)
def test_axe_finds_nothing_grave(serving_module, ids, looking, path):
    looking.goto(serving_module.url + path.format(**ids))
    figures = looking.locator("[data-figure]").count()
    expect(looking.locator(".js-plotly-plot")).to_have_count(figures, timeout=30_000)
    looking.locator("main details").evaluate_all("all => all.forEach(one => (one.open = true))")
    found = {}
    for scheme, width in LOOKS:
        looking.emulate_media(color_scheme=scheme)
        looking.set_viewport_size({"width": width, "height": 900})
        found[scheme, width] = complaints(looking)
    assert found == {seen: [] for seen in found}


def test_axe_would_complain_of_an_image_without_words_and_of_faint_ones(serving_module, looking):
    looking.goto(f"{serving_module.url}/measures")
    looking.evaluate("document.querySelector('.brand img').removeAttribute('alt')")
    looking.evaluate("document.querySelector('.lede').style.color = '#ccc'")
    assert sorted(one.split()[0] for one in complaints(looking)) == ["color-contrast", "image-alt"]


def test_keys_go_to_pages_tell_themselves_and_can_be_switched_off(page, serving_module):
    url = serving_module.url
    page.goto(f"{url}/measures")
    page.keyboard.press("g")
    page.keyboard.press("d")
    expect(page).to_have_url(f"{url}/embeddings")
    page.keyboard.press("?")
    keys = page.get_by_role("dialog", name="Keys")
    expect(keys).to_be_visible()
    keys.get_by_label("These keys work").uncheck()
    page.keyboard.press("Escape")
    expect(keys).to_be_hidden()
    page.keyboard.press("g")
    page.keyboard.press("m")
    expect(page).to_have_url(f"{url}/embeddings")
    page.get_by_role("button", name="Keys").click()
    keys.get_by_label("These keys work").check()
    keys.get_by_role("button", name="Close").click()
    page.keyboard.press("g")
    page.keyboard.press("q")
    expect(page).to_have_url(f"{url}/queue")
