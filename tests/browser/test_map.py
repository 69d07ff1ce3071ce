import re
from urllib.parse import parse_qs

import httpx2
import numpy as np
import pytest
from playwright.sync_api import Locator, Page, expect

from tests.waiting import wait_for

N = 300
GROUP = range(40, 80)
LONE_ROW = 7

# The pixel of a point of the first trace, relative to the page.
PIXEL = """(plot, row) => {
  const { xaxis, yaxis } = plot._fullLayout, box = plot.getBoundingClientRect(), [{ x, y }] = plot.data;
  return [box.left + xaxis._offset + xaxis.l2p(x[row]), box.top + yaxis._offset + yaxis.l2p(y[row])];
}"""


@pytest.fixture(scope="module")
def measured_map(dashboard) -> str:
    """The URL of a measured embedding with a group of rows to one side, and one row far from all others."""
    x = np.random.default_rng(0).normal(size=(N, 4))
    x[GROUP, 0] += 40
    x[LONE_ROW, 1] += 60
    weights = ["" if i == 1 else str(i / 8) for i in range(N)]
    sides = ["left" if i in GROUP else "right" for i in range(N)]
    vectors = (",".join(f"{value:.4f}" for value in row) for row in x)
    lines = [f"word {i},{','.join(row)}" for i, row in enumerate(zip(weights, sides, vectors, strict=True))]
    file = "\n".join(["name,weight,side,a,b,c,d", *lines])
    embedding_id = dashboard.post("/api/embeddings", files={"file": ("planted.csv", file)})["id"]
    address = f"/api/embeddings/{embedding_id}"
    dashboard.wait_for(lambda: dashboard.get(address)["status"] == "draft", "a draft")
    selection = {"vectors": ["a", "b", "c", "d"], "names": "name"}
    httpx2.put(f"{dashboard.url}{address}/selection?commit=auto", json=selection).raise_for_status()
    dashboard.wait_for(lambda: dashboard.get(address)["status"] == "ready", "a measured embedding")
    return f"{dashboard.url}/embeddings/{embedding_id}"


def open_map(page: Page, measured_map: str, query: str = "") -> Locator:
    page.goto(f"{measured_map}?tab=map{query}")
    plot = page.locator("#map-plot .js-plotly-plot")
    expect(plot.locator(".gl-canvas").first).to_be_attached()
    plot.scroll_into_view_if_needed()
    return plot


@pytest.mark.long
def test_lasso_selects_rows_and_measures_them(page, measured_map):
    plot = open_map(page, measured_map)
    page.get_by_role("button", name="Lasso").click()
    corners = np.array([plot.evaluate(PIXEL, row) for row in GROUP])
    (left, top), (right, bottom) = corners.min(axis=0) - 6, corners.max(axis=0) + 6
    page.mouse.move(left, top)
    page.mouse.down()
    for corner in ((right, top), (right, bottom), (left, bottom), (left, top)):
        page.mouse.move(*corner, steps=5)
    page.mouse.up()
    expect(page.locator("[data-map-selected]")).to_contain_text("40 rows selected: word 40, word 41")
    expect(page.get_by_label("Selected rows")).to_have_value("40-79")
    with page.expect_request(lambda request: request.method == "POST") as posted:
        page.get_by_role("button", name="Measure the selection").click()
    assert parse_qs(posted.value.post_data)["rows"] == ["40-79"]
    expect(page.get_by_role("heading", level=1)).to_contain_text(re.compile("40 rows of planted"))


def test_rows_are_clicked_found_selected_and_colored(page, measured_map):
    plot = open_map(page, measured_map)
    at = plot.evaluate(PIXEL, LONE_ROW)
    page.mouse.move(*at)
    expect(plot.locator(".hoverlayer")).to_contain_text(f"word {LONE_ROW}")
    page.mouse.click(*at)
    expect(page.locator("#map-row h3")).to_have_text(f"Row {LONE_ROW} · word {LONE_ROW}")
    expect(page.locator("#map-row tbody tr")).to_have_count(10)
    assert parse_qs(page.url.partition("?")[2]) == {"tab": ["map"], "row": [str(LONE_ROW)]}
    expect(page.locator("#map-row")).to_be_in_viewport()
    expect(plot).to_be_in_viewport()
    plot = open_map(page, measured_map, f"&row={LONE_ROW}")
    wait_for(lambda: plot.evaluate("plot => plot.data.at(-1).name") == "rings")
    assert plot.evaluate("plot => plot.data.at(-1).x.length") == 11
    page.locator("#map-row tbody a").first.click()
    expect(page.locator("#map-row h3")).not_to_contain_text(f"Row {LONE_ROW} ")

    page.get_by_role("textbox", name="Find a row").fill("word 55")
    page.get_by_role("button", name="Find", exact=True).click()
    expect(page.locator("#map-row h3")).to_have_text("Row 55 · word 55")
    page.get_by_label("Selected rows").fill("0-2 9")
    page.get_by_label("Selected rows").press("Tab")
    wait_for(lambda: plot.evaluate("plot => plot.data[0].selectedpoints") == [0, 1, 2, 9])

    page.get_by_label("Color by").select_option("weight")
    expect(plot.locator(".legend")).to_contain_text("no value (1)")
    page.get_by_label("Color by").select_option("side")
    expect(plot.locator(".legend")).to_contain_text("left (40)")
    assert plot.evaluate("plot => plot.data.map(({ name }) => name)")[:2] == ["right (260)", "left (40)"]
    assert parse_qs(page.url.partition("?")[2])["color"] == ["column-1"]


@pytest.fixture
def laid_out_map(dashboard, measured_map) -> str:
    address = f"/api/embeddings/{measured_map.rpartition('/')[2]}/figure-data/map"
    dashboard.wait_for(lambda: dashboard.get(address).get("layout"), "a neighbor layout")
    return measured_map


def test_layout_is_switched_by_keyboard_and_keeps_selection_and_search(page, laid_out_map):
    plot = open_map(page, laid_out_map)
    components = plot.evaluate("plot => plot.data[0].x[0]")
    expect(page.locator("#map-caption")).to_contain_text("principal components")
    page.get_by_label("Selected rows").fill("40-79")
    page.get_by_label("Selected rows").press("Tab")
    page.get_by_role("combobox", name="Layout").focus()
    page.keyboard.press("ArrowDown")
    expect(page.locator("#map-caption")).to_contain_text("Distances between clusters mean nothing.")
    wait_for(lambda: plot.evaluate("plot => plot.data[0].x[0]") != components)
    wait_for(lambda: plot.evaluate("plot => plot.data[0].selectedpoints") == [*GROUP])
    expect(page.get_by_label("Selected rows")).to_have_value("40-79")
    page.get_by_label("Selected rows").fill("")
    page.get_by_label("Selected rows").press("Tab")
    page.mouse.click(*plot.evaluate(PIXEL, LONE_ROW))
    expect(page.locator("#map-row h3")).to_have_text(f"Row {LONE_ROW} · word {LONE_ROW}")
    wait_for(lambda: plot.evaluate("plot => plot.data.at(-1).x.length") == 11)
    assert parse_qs(page.url.partition("?")[2])["layout"] == ["neighbors"]
    page.get_by_label("Color by").select_option("side")
    expect(plot.locator(".legend")).to_contain_text("left (40)")
    assert plot.evaluate("plot => plot.data[0].x[0]") != components


def test_map_without_javascript_has_one_layout(open_page, laid_out_map):
    plain = open_page(java_script_enabled=False)
    plain.goto(f"{laid_out_map}?tab=map")
    expect(plain.get_by_role("combobox", name="Color by")).to_be_visible()
    expect(plain.get_by_role("combobox", name="Layout")).to_be_hidden()
    expect(plain.locator("#map-caption")).to_contain_text("principal components")


def test_click_on_overview_opens_row_on_map(page, measured_map):
    page.goto(measured_map)
    plot = page.locator("#map-plot .js-plotly-plot")
    expect(plot.locator(".gl-canvas").first).to_be_attached()
    page.mouse.click(*plot.evaluate(PIXEL, LONE_ROW))
    expect(page.locator("#map-row h3")).to_have_text(f"Row {LONE_ROW} · word {LONE_ROW}")
    expect(page.locator(".tabs [aria-current]")).to_have_text("Map & neighbors")


def test_without_webgl_rows_are_drawn_as_shapes(page, measured_map):
    page.add_init_script("HTMLCanvasElement.prototype.getContext = () => null")
    page.goto(f"{measured_map}?tab=map")
    expect(page.locator("#map-plot .scatterlayer .point")).to_have_count(N)


def test_missing_map_and_figures_show_an_error(page, measured_map):
    page.route(re.compile(r"/plot\.json|/figures/"), lambda route: route.abort("connectionreset"))
    page.goto(f"{measured_map}?tab=details")
    missing = "This figure could not be drawn. The server did not answer. Reload the page to try again."
    expect(page.locator(".plot[data-figure]").first).to_have_text(missing)
    page.goto(measured_map)
    expect(page.locator("#map-plot")).to_have_text(missing)
