"""Check each page in one visit: height, axe and contrast in both themes, width on a phone, console."""

from collections.abc import Callable
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.long_cases import mark_long
from tests.page_actions import draw_all

MEASURED_REPORT = tuple(f"/embeddings/{{embedding}}{tab}" for tab in ("", "?tab=map", "?tab=details", "/tasks"))
MEASURED = (
    *MEASURED_REPORT, "/embeddings?sort=-isoscore", "/embeddings/{embedding}/description",
    "/embeddings/{embedding}/lab?method=zca_whitening", "/embeddings/{embedding}/tasks?kind=queries", "/tasks/{task}",
    "/compare?id={embedding}&id={layer}", "/compare?id={first_layer}&id={layer}",
    "/compare/rows?id={first_layer}&id={layer}", "/encodings", "/encodings/{encoding}", "/playground", "/trash",
)  # fmt: skip
EXPERIMENT = tuple(f"/experiments/{{finished}}{tab}" for tab in ("", "?tab=training", "?tab=runs", "?tab=export"))
RUN = tuple(f"/runs/{{finished_run}}?tab={tab}" for tab in ("training", "results", "settings"))
FILLED = (
    *EXPERIMENT, "/experiments/{finished}?x=lam&facet=lam&color=isoscore_star&seeds=1",
    "/experiments/{finished}/runs?q=lam%3E5&sort=-iso", "/experiments/{troubled}",
    "/experiments/new?dataset_id={dataset}",
    "/experiments/new?dataset_id={dataset}&regularizers=istar&regularizers=entropy",
    "/experiments/search?dataset_id={dataset}", "/experiments/import",
    *RUN,
    "/runs/{failed_run}", "/", "/datasets", "/datasets/{dataset}", "/experiments", "/compare", "/compare/runs",
    "/compare/runs?q=lam%3E", "/compare/runs/list", "/queue", "/measures", "/nowhere",
)  # fmt: skip
SHORT = (
    *MEASURED_REPORT,
    *EXPERIMENT,
    "/tasks/{task}",
    "/embeddings/{embedding}/lab?method=zca_whitening",
    "/experiments/new?dataset_id={dataset}",
    *RUN,
)
MAX_PIXELS = 2250  # two and a half screens of 1400 x 900
DRAWN = (
    *MEASURED_REPORT[1:3], "/embeddings/{embedding}/lab?method=zca_whitening", "/tasks/{task}",
    "/compare?id={first_layer}&id={layer}", "/encodings/{encoding}", "/playground", *EXPERIMENT[1:3],
    "/experiments/{finished}?x=lam&facet=lam&color=isoscore_star&seeds=1",
    "/runs/{finished_run}?tab=training",
)  # fmt: skip
# A page costs 2 to 20 seconds of CPU: the long tests check the others.
KEY_PAGES = {
    "/", "/embeddings/{embedding}", "/embeddings/{embedding}?tab=map", "/experiments/{finished}",
    "/experiments/new?dataset_id={dataset}", "/runs/{finished_run}?tab=training", "/nowhere",
}  # fmt: skip
GRAVE = ("serious", "critical")
OUTLINE = "heading-order"  # of moderate impact by axe
ALL_RULES = {"resultTypes": ["violations"]}
"""Describe violations only: describing passed rules takes longer than checking them."""
OUTSIDE_FIGURES = {"exclude": [[".js-plotly-plot"]]}
"""A figure is one image to screen readers; ``find_faint`` checks the colors of its marks."""
SHORTEN_TABLES = "document.querySelectorAll('tbody tr:nth-child(n + 9)').forEach((row) => row.remove())"
"""Rows of a table are alike, and axe would check hundreds of cells."""
CONTRAST = ALL_RULES | {"runOnly": ["color-contrast"]}
FAINT = Path(__file__).with_name("contrast.js").read_text()
THEMED = """() => [...document.querySelectorAll("[data-figure]:has(.js-plotly-plot)")].every((box) =>
  box.querySelector(".js-plotly-plot").layout.template.layout.font.color === getComputedStyle(box).color)"""
PHONE_PIXELS = 390
STACKED = ".table:has(.stacked, .compared)"
UNSCROLLED = (
    "/", "/embeddings?sort=-isoscore", "/embeddings/{embedding}/description", "/compare?id={embedding}&id={layer}",
)  # fmt: skip


@pytest.fixture
def page(open_page: Callable[..., Page]) -> Page:
    # axe adds styles, which the Content-Security-Policy forbids. Tests that click keep the policy on.
    return open_page(viewport={"width": 1400, "height": 900}, reduced_motion="reduce", bypass_csp=True)


@pytest.mark.parametrize("path", mark_long(MEASURED, KEY_PAGES.__contains__))
def test_measured_page_is_short_legible_and_accessible(dashboard, measured, page, path):
    assert find_faults(page, dashboard.url, path, measured) == []


@pytest.mark.parametrize("path", mark_long(FILLED, KEY_PAGES.__contains__))
def test_runs_page_is_short_legible_and_accessible(filled, ids, page, path):
    assert find_faults(page, filled.url, path, ids) == []


def test_checks_report_faint_marks_and_images_without_alt(filled, ids, page):
    page.goto(f"{filled.url}/experiments/{ids['finished']}")
    draw_all(page)
    page.evaluate("for (const mark of document.querySelectorAll('.point, .xtick text')) mark.style.opacity = 0.2")
    faint = "\n".join(page.locator("[data-figure]").first.evaluate(FAINT))
    assert "point #" in faint
    assert "text “" in faint
    page.goto(f"{filled.url}/measures")
    page.evaluate("document.querySelector('.brand img').removeAttribute('alt')")
    page.evaluate("document.querySelector('.lede').style.color = '#ccc'")
    assert sorted(violation.split()[0] for violation in find_violations(page)) == ["color-contrast", "image-alt"]


def find_faults(page: Page, url: str, path: str, ids: dict[str, str]) -> list[str]:
    """Check colors light and wide, then dark; everything else dark and narrow."""
    page.goto(url + path.format(**ids))
    faults = []
    if path in SHORT and (height := measure_height(page)) > MAX_PIXELS:
        faults.append(f"{height} pixels tall, expected at most {MAX_PIXELS}")
    page.locator("main details").evaluate_all("all => all.forEach(fold => (fold.open = true))")
    draw_all(page)
    if path in DRAWN and not page.locator("[data-figure]").count():
        faults.append("no figure")
    page.evaluate(SHORTEN_TABLES)
    faults += find_faint(page, "light") + find_violations(page, CONTRAST) + find_faint(page, "dark")
    page.set_viewport_size({"width": PHONE_PIXELS, "height": 900})
    faults += find_violations(page)
    if (width := page.evaluate("document.documentElement.scrollWidth")) > PHONE_PIXELS:
        faults.append(f"{width} pixels wide on a screen of {PHONE_PIXELS}")
    fits = "boxes => boxes.every(box => box.scrollWidth <= box.clientWidth)"
    if path in UNSCROLLED and not page.locator(STACKED).evaluate_all(fits):
        faults.append("a table scrolls sideways on a phone")
    return faults


def measure_height(page: Page) -> int:
    for late in page.locator("[id^=late-]:has(.coming):visible").evaluate_all("all => all.map((late) => late.id)"):
        page.locator(f"#{late}").scroll_into_view_if_needed()
        expect(page.locator(f"#{late} .coming")).to_have_count(0)
    expect(page.locator("[data-figure]:visible:not(:has(.main-svg, canvas))")).to_have_count(0)
    return int(page.evaluate("document.documentElement.scrollHeight"))


def find_faint(page: Page, scheme: str) -> list[str]:
    page.emulate_media(color_scheme=scheme)
    page.wait_for_function(THEMED)
    return [
        f"{scheme}, {box.get_attribute('data-name')}: {faint}"
        for box in page.locator("[data-figure]:has(.js-plotly-plot)").all()
        for faint in box.evaluate(FAINT)
    ]


def find_violations(page: Page, options: dict[str, list[str]] = ALL_RULES) -> list[str]:
    return [
        f"{violation['id']} ({violation['impact']}): {node['target']} {node['failureSummary']}"
        for violation in Axe().run(page, OUTSIDE_FIGURES, options).response["violations"]
        if violation["impact"] in GRAVE or violation["id"] == OUTLINE
        for node in violation["nodes"]
    ]
