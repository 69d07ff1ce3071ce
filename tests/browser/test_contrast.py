"""Figures as drawn: text, marks and what is told where the mouse points, against what they lie on, in both themes."""

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page

from tests.drawing import draw_all
from tests.filled import Filled
from tests.serving import Serving

FAINT = Path(__file__).with_name("contrast.js").read_text()
THEMED = """() => [...document.querySelectorAll("[data-figure]:has(.js-plotly-plot)")].every((box) =>
  box.querySelector(".js-plotly-plot").layout.template.layout.font.color === getComputedStyle(box).color)"""
FILLED = (
    "/experiments/{finished}?seeds=1",
    "/experiments/{finished}?x=lam&facet=lam&colour=isoscore_star",
    "/experiments/{finished}?tab=conclusion",
    "/experiments/{finished}?tab=layers",
    "/experiments/{finished}?tab=training",
    "/experiments/{finished}?tab=runs",
    "/runs/{finished_run}",
)
MEASURED = (
    "/embeddings/{embedding}?tab=map",
    "/embeddings/{embedding}?tab=directions",
    "/embeddings/{embedding}?tab=neighbors",
    "/embeddings/{embedding}/lab?method=zca_whitening",
    "/tasks/{task}",
    "/compare?id={embedding}&id={layer}",
    "/compare?id={first_layer}&id={layer}",
    "/encodings/{encoding}",
    "/playground",
)


@pytest.mark.parametrize("path", FILLED)
def test_figures_of_runs_are_seen_in_both_themes(
    filled: Filled, ids: dict[str, str], open_page: Callable[..., Page], path: str
):
    assert faint_on(open_page(), filled.url + path.format(**ids)) == {}


@pytest.mark.parametrize("path", MEASURED)
def test_figures_of_embeddings_are_seen_in_both_themes(
    dashboard: Serving, measured: dict[str, str], open_page: Callable[..., Page], path: str
):
    assert faint_on(open_page(), dashboard.url + path.format(**measured)) == {}


def test_a_faint_mark_and_faint_words_would_be_found(
    filled: Filled, ids: dict[str, str], open_page: Callable[..., Page]
):
    page = open_page(bypass_csp=True)
    page.goto(f"{filled.url}/experiments/{ids['finished']}")
    draw_all(page)
    page.evaluate("for (const one of document.querySelectorAll('.point, .xtick text')) one.style.opacity = 0.2")
    found = "\n".join(page.locator("[data-figure]").first.evaluate(FAINT))
    assert "point #" in found
    assert "text “" in found


def faint_on(page: Page, url: str) -> dict[str, list[str]]:
    """What is too faint by theme and figure, with every figure of the page drawn."""
    page.goto(url)
    page.locator("main details:has([data-figure], [hx-trigger])").evaluate_all(
        "all => all.forEach(one => one.open = true)"
    )
    draw_all(page)
    assert page.locator("[data-figure]").count(), "there is a figure to look at"
    found = {}
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        page.wait_for_function(THEMED)
        for box in page.locator("[data-figure]:has(.js-plotly-plot)").all():
            if faint := box.evaluate(FAINT):
                found[f"{scheme}, {box.get_attribute('data-name')}"] = faint
    return found
