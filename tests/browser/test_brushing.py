import pytest
from playwright.sync_api import Locator, Page, expect

from app.db.models import DatasetOrigin, Experiment
from tests.factories import add_experiment, run_row


@pytest.fixture
def experiment(filled) -> str:
    runs = [
        run_row(lam, seed, performance=0.5 + 0.1 * seed, isoscore_star=0.3 + 0.1 * lam + 0.01 * seed)
        for lam in (-1.0, 0.0, 1.0)
        for seed in (0, 1)
    ]
    row = add_experiment(filled.context, *runs, name="brushed")
    with filled.context.sessions.begin() as session:
        session.get_one(Experiment, row).dataset.origin = DatasetOrigin.BY_NAME
    return f"{filled.url}/experiments/{row}?tab=runs"


def drag(page: Page, axis: Locator, start: float, end: float) -> None:
    box = axis.bounding_box()
    assert box is not None
    x = box["x"] + box["width"] / 2
    page.mouse.move(x, box["y"] + start * box["height"])
    page.mouse.down()
    page.mouse.move(x, box["y"] + end * box["height"], steps=8)
    page.mouse.up()


def open_axes(page: Page, experiment: str) -> Locator:
    page.goto(experiment)
    page.get_by_role("heading", name="Runs by setting").scroll_into_view_if_needed()
    axes = page.locator("#figure-parallel .axis-brush")
    expect(axes).to_have_count(4)
    page.locator("#figure-parallel").scroll_into_view_if_needed()
    return axes


@pytest.mark.long
def test_brush_fills_search_and_filters_table(experiment, page):
    axes = open_axes(page, experiment)
    search, rows = page.get_by_label("Search runs"), page.locator("#found-runs tbody tr")
    expect(rows).to_have_count(6)

    drag(page, axes.nth(0), 0.3, 0.95)
    expect(search).to_have_value("lam>=-1 lam<=0")
    expect(rows).to_have_count(4)

    drag(page, axes.nth(1), 0.7, 0.95)
    expect(search).to_have_value("lam>=-1 lam<=0 seed:0")
    expect(rows).to_have_count(2)

    expect(page).to_have_title("brushed · Isoscope")  # fetching figure and rows keeps the title

    search.fill(f"status:finished {search.input_value()}")
    axes.nth(0).click(position={"x": 5, "y": 8})
    expect(search).to_have_value("status:finished seed:0")
    expect(rows).to_have_count(3)


@pytest.mark.long
def test_clearing_brush_keeps_typed_search(experiment, page):
    axes = open_axes(page, experiment)
    search = page.get_by_label("Search runs")
    search.fill("seed:0,1")
    drag(page, axes.nth(1), 0.7, 0.95)
    expect(search).to_have_value("seed:0,1 seed:0")
    axes.nth(1).click(position={"x": 5, "y": 8})
    expect(search).to_have_value("seed:0,1")


def test_typed_search_filters_table(experiment, page):
    page.goto(experiment)
    page.get_by_label("Search runs").focus()
    page.keyboard.type("lam<=0 isoscore_star>0.25")
    expect(page.locator("#found-runs tbody tr")).to_have_count(2)
