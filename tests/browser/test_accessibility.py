"""Pages as axe sees them, in both themes and at two widths: nothing serious, nothing critical."""

from collections.abc import Callable

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

from tests.drawing import draw_all

MEASURED = (
    "/embeddings",
    "/embeddings/{embedding}",
    "/embeddings/{embedding}?tab=map",
    "/embeddings/{embedding}?tab=directions",
    "/embeddings/{embedding}?tab=neighbors",
    "/embeddings/{embedding}?tab=measures",
    "/embeddings/{embedding}?tab=source",
    "/embeddings/{embedding}/lab?method=zca_whitening",
    "/embeddings/{embedding}/tasks?kind=queries",
    "/tasks/{task}",
    "/compare?id={embedding}&id={layer}",
    "/compare?id={first_layer}&id={layer}",
    "/compare/rows?id={first_layer}&id={layer}",
    "/encodings",
    "/encodings/{encoding}",
    "/trash",
)
"""Pages of what a worker has measured."""
PATHS = (
    "/",
    "/datasets",
    "/datasets/{dataset}",
    "/experiments",
    "/experiments/{finished}",
    "/experiments/{finished}?tab=conclusion",
    "/experiments/{finished}?tab=layers",
    "/experiments/{finished}?tab=training",
    "/experiments/{finished}?tab=runs",
    "/experiments/{finished}?tab=paper",
    "/experiments/{finished}?tab=settings",
    "/experiments/{troubled}",
    "/experiments/{finished}/runs?q=lam%3E5&sort=-iso",
    "/experiments/new?dataset_id={dataset}&regularizers=istar&regularizers=entropy",
    "/experiments/search?dataset_id={dataset}",
    "/experiments/import",
    *(f"/runs/{{finished_run}}?tab={tab}" for tab in ("training", "layers", "results", "settings")),
    "/runs/{failed_run}",
    "/compare",
    "/compare/runs",
    "/compare/runs?q=lam%3E",
    "/compare/runs/list",
    "/queue",
    "/measures",
    "/playground",
    "/nowhere",
)
GRAVE = ("serious", "critical")
OUTLINE = "heading-order"
"""Of moderate impact by axe; headings that skip a level are none here all the same."""
LOOKS = (("light", 1280), ("dark", 390))
"""Colors do not depend on the width, nor what is where on the colors: two looks see all four."""
OPTIONS = {"resultTypes": ["violations"]}
"""What is in order is not told at length, which takes longer than to find it."""


@pytest.fixture
def looking(open_page: Callable[..., Page]) -> Page:
    # axe styles what it measures, which the policy of pages forbids; tests that click hold pages to it.
    return open_page(reduced_motion="reduce", bypass_csp=True)


def complaints(page: Page) -> list[str]:
    """What axe finds grave, with the elements it is about."""
    found = Axe().run(page, options=OPTIONS).response["violations"]
    return [
        f"{one['id']} ({one['impact']}): {node['target']} {node['failureSummary']}"
        for one in found
        if one["impact"] in GRAVE or one["id"] == OUTLINE
        for node in one["nodes"]
    ]


def looked_at(page: Page) -> dict[tuple[str, int], list[str]]:
    """What is grave by theme and width, with all folds open and all figures drawn."""
    draw_all(page)
    page.locator("main details").evaluate_all("all => all.forEach(one => (one.open = true))")
    found = {}
    for scheme, width in LOOKS:
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size({"width": width, "height": 900})
        found[scheme, width] = complaints(page)
    return found


@pytest.mark.parametrize("path", MEASURED)
def test_axe_finds_nothing_grave_where_something_is_measured(dashboard, measured, looking, path):
    looking.goto(dashboard.url + path.format(**measured))
    assert looked_at(looking) == {look: [] for look in LOOKS}


@pytest.mark.parametrize("path", PATHS)
def test_axe_finds_nothing_grave(filled, ids, looking, path):
    looking.goto(filled.url + path.format(**ids))
    assert looked_at(looking) == {look: [] for look in LOOKS}


def test_axe_would_complain_of_an_image_without_words_and_of_faint_ones(filled, looking):
    looking.goto(f"{filled.url}/measures")
    looking.evaluate("document.querySelector('.brand img').removeAttribute('alt')")
    looking.evaluate("document.querySelector('.lede').style.color = '#ccc'")
    assert sorted(one.split()[0] for one in complaints(looking)) == ["color-contrast", "image-alt"]
