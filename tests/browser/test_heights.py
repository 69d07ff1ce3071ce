"""How tall pages are on a screen of 1400 x 900: what a tab tells is found within two and a half screens."""

import io
from collections.abc import Callable

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from tests.filled import Filled
from tests.serving import Serving

SCREEN = {"width": 1400, "height": 900}
MOST_PIXELS = 2250

REPORT = ("", "?tab=map", "?tab=directions", "?tab=neighbors", "?tab=measures", "?tab=source")
EXPERIMENT = ("", "?tab=layers", "?tab=training", "?tab=conclusion", "?tab=paper")


@pytest.fixture(scope="module")
def faulty(dashboard: Serving) -> str:
    """The id of a measured embedding with warnings of its file, and with more findings than are shown at first."""
    draw = np.random.default_rng(0)
    labels = draw.integers(0, 4, 1200)
    rows = (draw.normal(size=(1200, 64)) + 1.4 * draw.normal(size=(4, 64))[labels]) * np.linspace(1.0, 0.2, 64)
    rows[:, 7] = 4 * rows[:, 7] + 6
    rows[600:760], rows[:, 20], rows[5] = rows[:160], 0.0, 60 * rows[5]
    matrix, names = io.BytesIO(), [f"word {row},topic {one}" for row, one in enumerate(labels)]
    np.save(matrix, rows.astype(np.float32))
    annotations = ("words.csv", "\n".join(["word,topic", *names]).encode())
    files = {"file": ("words.npy", matrix.getvalue()), "annotations": annotations}
    embedding = dashboard.post("/api/embeddings?commit=auto", files=files)["id"]
    path = f"/api/embeddings/{embedding}"
    dashboard.wait_for(lambda: dashboard.get(path)["status"] == "ready", "measurements")
    assert len(dashboard.get(f"{path}/findings")) > 4
    return str(embedding)


@pytest.mark.parametrize("tab", REPORT)
def test_tabs_of_a_report(dashboard: Serving, faulty: str, open_page: Callable[..., Page], tab: str):
    assert height(open_page(viewport=SCREEN), f"{dashboard.url}/embeddings/{faulty}{tab}") <= MOST_PIXELS


@pytest.mark.parametrize("tab", EXPERIMENT)
def test_tabs_of_an_experiment(filled: Filled, ids: dict[str, str], open_page: Callable[..., Page], tab: str):
    assert height(open_page(viewport=SCREEN), f"{filled.url}/experiments/{ids['finished']}{tab}") <= MOST_PIXELS


def test_a_task(dashboard: Serving, measured: dict[str, str], open_page: Callable[..., Page]):
    assert height(open_page(viewport=SCREEN), f"{dashboard.url}/tasks/{measured['task']}") <= MOST_PIXELS


def test_the_form_of_a_sweep(filled: Filled, ids: dict[str, str], open_page: Callable[..., Page]):
    page = open_page(viewport=SCREEN)
    assert height(page, f"{filled.url}/experiments/new?dataset_id={ids['dataset']}") <= MOST_PIXELS


def height(page: Page, url: str) -> int:
    """How tall a page is, in pixels, with its folds as they are and every figure drawn that none of them hides."""
    page.goto(url)
    for late in page.locator("[id^=late-]:has(.coming):visible").evaluate_all("all => all.map((one) => one.id)"):
        page.locator(f"#{late}").scroll_into_view_if_needed()
        expect(page.locator(f"#{late} .coming")).to_have_count(0)
    expect(page.locator("[data-figure]:visible:not(:has(.main-svg, canvas))")).to_have_count(0)
    return int(page.evaluate("document.documentElement.scrollHeight"))
