"""What is told where the mouse points: readable in both themes, as drawn."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.drawing import draw_all
from tests.filled import Filled

LEAST_CONTRAST = 4.5
"""Of text, by WCAG 2.2, 1.4.3."""

COLOURS = "one => { const style = getComputedStyle(one); return [style.fill, style.fillOpacity]; }"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_labels_of_points_are_readable(open_page: Callable[..., Page], filled: Filled, scheme: str):
    page = open_page(color_scheme=scheme)
    page.goto(f"{filled.url}/experiments/{filled.finished}")
    draw_all(page)
    point = page.locator(".scatterlayer .point").first
    point.scroll_into_view_if_needed()
    box = point.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    label = page.locator(".hoverlayer .hovertext")
    expect(label).not_to_have_count(0)
    paper, paper_opacity = label.first.locator("path").first.evaluate(COLOURS)
    ink, _ = label.first.locator("text").first.evaluate(COLOURS)
    assert paper_opacity == "1"
    assert contrast(ink, paper) >= LEAST_CONTRAST, f"{ink} on {paper}"


def contrast(one: str, other: str) -> float:
    """Return the contrast of two opaque colors as WCAG defines it, from 1 to 21."""
    darker, lighter = sorted(map(luminance, (one, other)))
    return (lighter + 0.05) / (darker + 0.05)


def luminance(colour: str) -> float:
    """Return the relative luminance of rgb(r, g, b)."""
    channels = [int(part) / 255 for part in re.fullmatch(r"rgb\((\d+), (\d+), (\d+)\)", colour).groups()]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
