"""The map of rows by hand: it is drawn, zooms, tells the row at the mouse, and a lasso has rows measured."""

import re
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
    lines = [f"word {i},{','.join(f'{value:.4f}' for value in row)}" for i, row in enumerate(x)]
    file = "\n".join(["name,a,b,c,d", *lines])
    made = dashboard.post("/api/embeddings?commit=auto", files={"file": ("planted.csv", file)})["id"]
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


def test_without_webgl_the_old_figure_stands_in(page, mapped):
    page.add_init_script("HTMLCanvasElement.prototype.getContext = () => null")
    page.goto(f"{mapped.url}?tab=map")
    expect(page.locator("#map-figure")).to_have_attribute("open", "")
    expect(page.locator("#map")).to_be_hidden()
    expect(page.locator("#figure-projection")).to_be_visible()
