"""The map of rows by hand: it is drawn, zooms, tells the row at the mouse, and a lasso has rows measured."""

import re
from base64 import b64encode
from typing import NamedTuple
from urllib.parse import parse_qs

import httpx2
import numpy as np
import pytest
from playwright.sync_api import Locator, Page, expect

MARGIN = 0.92
"""Of the canvas, what all points take where they fit."""
N = 300
GROUP = range(40, 80)
ALONE = 7

# Pixels with ink, and the sum of their places, which changes with where the ink lies.
INK = """canvas => {
  const gl = canvas.getContext("webgl2"), { width, height } = canvas, seen = new Uint8Array(4 * width * height);
  gl.readPixels(0, 0, width, height, gl.RGBA, gl.UNSIGNED_BYTE, seen);
  let count = 0, places = 0;
  for (let i = 0; i < width * height; i++) if (seen[4 * i + 3]) { count++; places += i; }
  return [count, places];
}"""


# Pixels of the overlay with ink.
OVER = """canvas => {
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  return data.filter((value, i) => i % 4 === 3 && value).length;
}"""


class Mapped(NamedTuple):
    """A measured embedding and where its rows lie on its map."""

    url: str
    xy: np.ndarray

    def pixel(self, canvas: Locator, at: np.ndarray) -> tuple[float, float]:
        """Where on the page a place of the map lies while all of it fits."""
        box = canvas.bounding_box()
        assert box is not None
        low, high = self.xy.min(axis=0), self.xy.max(axis=0)
        scale = MARGIN * min(np.array([box["width"], box["height"]]) / (high - low))
        right, up = (at - (low + high) / 2) * scale
        return box["x"] + box["width"] / 2 + right, box["y"] + box["height"] / 2 - up


@pytest.fixture(scope="module")
def mapped(dashboard) -> Mapped:
    """Rows around the origin but a group on one side, and one row far from all others."""
    x = np.random.default_rng(0).normal(size=(N, 4))
    x[GROUP, 0] += 40
    x[ALONE, 1] += 60
    weights = ["" if i == 1 else str(i / 8) for i in range(N)]
    sides = ["left" if i in GROUP else "right" for i in range(N)]
    vectors = (",".join(f"{value:.4f}" for value in row) for row in x)
    lines = [f"word {i},{','.join(row)}" for i, row in enumerate(zip(weights, sides, vectors, strict=True))]
    file = "\n".join(["name,weight,side,a,b,c,d", *lines])
    made = dashboard.post("/api/embeddings", files={"file": ("planted.csv", file)})["id"]
    dashboard.wait_for(lambda: dashboard.get(f"/api/embeddings/{made}")["status"] == "draft", "a draft")
    chosen = {"vectors": ["a", "b", "c", "d"], "names": "name"}
    httpx2.put(f"{dashboard.url}/api/embeddings/{made}/selection?commit=auto", json=chosen).raise_for_status()
    dashboard.wait_for(lambda: dashboard.get(f"/api/embeddings/{made}")["status"] == "ready", "a measured embedding")
    url = f"{dashboard.url}/embeddings/{made}"
    at = dashboard.get(f"/embeddings/{made}/map/map.json")["points"]
    points = httpx2.get(dashboard.url + at).content
    return Mapped(url, np.frombuffer(points, "<f4", 2 * N).reshape(N, 2).astype(np.float64))


def opened(page: Page, mapped: Mapped) -> Locator:
    """Open the map and return its canvas."""
    page.goto(f"{mapped.url}?tab=map")
    expect(page.locator("#map[data-frames]")).to_be_visible()
    canvas = page.locator("[data-map-points]")
    canvas.scroll_into_view_if_needed()
    expect(page.locator("[data-map-wait]")).to_be_hidden()
    return canvas


def module(name: str) -> str:
    """Return what imports a module of the map on its page."""
    return f"import(new URL('map/{name}.js', document.querySelector('script[src*=\"js/map\"]').src))"


def test_points_are_drawn_and_zooming_and_panning_change_them(page, mapped):
    canvas = opened(page, mapped)
    drawn = canvas.evaluate(INK)
    assert drawn[0] > N
    for change in ("-", "ArrowLeft", "ArrowUp", "0"):
        before, frames = canvas.evaluate(INK), page.locator("#map").get_attribute("data-frames")
        canvas.press(change)
        expect(page.locator("#map")).not_to_have_attribute("data-frames", frames)
        assert canvas.evaluate(INK) != before
    assert canvas.evaluate(INK) == drawn


def test_the_mouse_tells_the_row_it_points_at(page, mapped):
    canvas = opened(page, mapped)
    page.mouse.move(*mapped.pixel(canvas, mapped.xy[ALONE]))
    expect(page.locator("[data-map-told]")).to_contain_text(f"Row {ALONE} · word {ALONE} · ")


def test_a_lasso_around_a_group_has_its_rows_measured(page, mapped):
    canvas = opened(page, mapped)
    page.get_by_role("button", name="Lasso").click()
    low, high = mapped.xy[GROUP].min(axis=0), mapped.xy[GROUP].max(axis=0)
    corners = [low - 1, [low[0] - 1, high[1] + 1], high + 1, [high[0] + 1, low[1] - 1]]
    first, *others = (mapped.pixel(canvas, np.array(corner)) for corner in corners)
    page.mouse.move(*first)
    page.mouse.down()
    for corner in others:
        page.mouse.move(*corner, steps=5)
    page.mouse.up()
    expect(page.locator("[data-map-selected]")).to_contain_text("40 rows selected: word 40, word 41")
    with page.expect_request(lambda one: one.method == "POST") as posted:
        page.get_by_role("button", name="Measure the selection").click()
    assert parse_qs(posted.value.post_data)["rows"] == ["40-79"]
    page.wait_for_url(lambda url: url != f"{mapped.url}?tab=map")
    expect(page.get_by_role("heading", level=1)).to_contain_text(re.compile("40 rows of planted"))
    expect(page.get_by_text("40 rows × 4 dimensions")).to_be_visible()


def test_a_row_at_the_mouse_is_rung_with_its_neighbors_at_an_address_of_its_own(page, mapped):
    canvas = opened(page, mapped)
    clean = page.locator("[data-map-overlay]").evaluate(OVER)
    page.mouse.click(*mapped.pixel(canvas, mapped.xy[ALONE]))
    expect(page.locator("#map-row h3")).to_have_text(f"Row {ALONE} · word {ALONE}")
    expect(page.locator("#map-row tbody tr")).to_have_count(10)
    expect(page.locator("[data-map-find] [name=row]")).to_have_value(str(ALONE))
    assert parse_qs(page.url.partition("?")[2]) == {"tab": ["map"], "row": [str(ALONE)]}
    page.goto(page.url)
    expect(page.locator("[data-map-told]")).to_contain_text(f"Row {ALONE} · word {ALONE} · ")
    assert page.locator("[data-map-overlay]").evaluate(OVER) > clean
    page.locator("#map-row tbody a").first.click()
    expect(page.locator("#map-row h3")).not_to_contain_text(f"Row {ALONE} ")


def test_a_row_is_found_by_its_name_from_the_keyboard(page, mapped):
    opened(page, mapped)
    page.get_by_label("Find a row").press_sequentially("word 55\n")
    expect(page.locator("#map-row h3")).to_have_text("Row 55 · word 55")
    expect(page.locator("[data-map-told]")).to_contain_text("Row 55 · word 55 · ")


def test_colors_follow_a_kept_column_and_hubness(page, mapped):
    canvas = opened(page, mapped)
    expect(page.locator("[data-map-legend=number]")).to_be_hidden()
    page.get_by_label("Color by").select_option("weight")
    expect(page.locator("[data-map-legend=number]")).to_contain_text("weight")
    expect(page.locator("[data-map-missing]")).to_have_text("1 without a value")
    page.mouse.move(*mapped.pixel(canvas, mapped.xy[ALONE]))
    expect(page.locator("[data-map-told]")).to_contain_text(f"weight {ALONE / 8:.3}")
    page.get_by_label("Color by").select_option("hubness")
    expect(page.locator("[data-map-by]")).to_have_text("hubness")
    page.get_by_label("Color by").select_option("side")
    drawn = canvas.evaluate(INK)
    left = page.get_by_role("button", name="left 40")
    left.click()
    expect(left).to_have_attribute("aria-pressed", "false")
    expect(page.locator("#map")).to_have_attribute("data-drawn", "all")
    assert canvas.evaluate(INK)[0] < drawn[0]
    page.get_by_label("Color by").select_option("one color")
    expect(page.locator("[data-map-legend=column-1]")).to_be_hidden()
    expect(page.locator("#map")).to_have_attribute("data-drawn", "all")
    assert canvas.evaluate(INK) == drawn


def test_a_map_that_the_card_dropped_is_drawn_again(page, mapped):
    canvas = opened(page, mapped)
    drawn = canvas.evaluate(INK)
    canvas.evaluate("it => { const gl = it.getContext('webgl2'); window.card = gl.getExtension('WEBGL_lose_context') }")
    page.evaluate("card.loseContext()")
    expect(page.locator("[data-map-wait]")).to_contain_text("Reload the page if it stays away.")
    expect(page.locator("#fold-projection")).to_have_attribute("open", "")
    page.evaluate("card.restoreContext()")
    expect(page.locator("[data-map-wait]")).to_be_hidden()
    expect(page.locator("#map")).to_have_attribute("data-drawn", "all")
    assert canvas.evaluate(INK) == drawn


def test_a_selection_of_many_runs_is_sent_as_bits(page, mapped):
    opened(page, mapped)
    chosen = list(range(0, N, 7))
    wanted = np.zeros(N, bool)
    wanted[chosen] = True
    sent = page.evaluate(f"async ([chosen, n]) => (await {module('selection')}).bitsOf(chosen, n)", [chosen, N])
    assert sent == b64encode(np.packbits(wanted)).decode()


@pytest.mark.parametrize(("late", "drawn"), [(80, 10_000), (30, 50_000), (5, 200_000)])
def test_a_map_that_moves_draws_as_many_points_as_frames_are_in_time(page, mapped, late, drawn):
    opened(page, mapped)
    moved = """const painter = { moving: 50_000 };
      for (let frame = 0; frame < 9; frame++) Painter.prototype.pace.call(painter, late);
      return painter.moving;"""
    found = page.evaluate(f"async (late) => {{ const {{ Painter }} = await {module('painter')}; {moved} }}", late)
    assert found == drawn


def test_without_webgl_the_old_figure_stands_in(page, mapped):
    page.add_init_script("HTMLCanvasElement.prototype.getContext = () => null")
    page.goto(f"{mapped.url}?tab=map")
    expect(page.locator("#fold-projection")).to_have_attribute("open", "")
    expect(page.locator("#map")).to_be_hidden()
    expect(page.locator("#figure-projection")).to_be_visible()


def test_a_map_and_figures_that_the_server_does_not_send_say_so(page, mapped):
    page.route(re.compile(r"/map\.json|/figures/"), lambda route: route.abort("connectionreset"))
    page.goto(mapped.url)
    missing = "could not be drawn. The server did not answer. Reload the page to try again."
    expect(page.locator("[data-map-wait]")).to_have_text(f"The map {missing}")
    expect(page.locator(".plot[data-figure]").first).to_have_text(f"This figure {missing}")
