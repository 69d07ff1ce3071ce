import re

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import expect

from tests.page_actions import draw_all
from tests.waiting import wait_for

POINTS = {"column": 3.25 * 72, "page": 6.75 * 72}


def test_figure_prints_alone_at_paper_width(filled, page):
    page.goto(f"{filled.url}/experiments/{filled.finished}?x=lam")
    draw_all(page)
    caption = page.locator("#figure-lambda figcaption").text_content()
    for size, points in POINTS.items():
        page.evaluate("window.printed = ''; window.print = () => { window.printed = document.title; }")
        page.locator("#figure-lambda summary", has_text="Export").click()
        page.locator(f"#figure-lambda [data-export=pdf][data-sheet={size}]").click()
        wait_for(lambda: page.evaluate("() => window.printed"), 60)
        assert page.evaluate("window.printed") == "All-finished-lambda"
        sheet = page.locator("figure.sheet")
        assert " ".join(sheet.locator("figcaption").text_content().split()) == " ".join(caption.split())
        pdf = page.pdf(prefer_css_page_size=True)
        (width,) = re.findall(rb"/MediaBox \[0 0 ([\d.]+) [\d.]+\]", pdf)
        assert float(width) == pytest.approx(points, abs=1)
        assert pdf.count(b"/Type /Page\n") == 1, "only the figure is printed"
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        expect(sheet).to_have_count(0)
        expect(page).to_have_title(re.compile("All finished"))


TITLE_WIDTH = """([text, family]) => {
  const pen = document.createElement("canvas").getContext("2d");
  pen.font = `600 16px ${family}`;
  return pen.measureText(text).width;
}"""
FALLBACK_FACE = "monospace"
TITLE = {"x": 8, "height": 36, "scale": 3}


def test_exported_images_use_page_font(filled, page, tmp_path):
    page.goto(f"{filled.url}/experiments/{filled.finished}?x=lam")
    face = page.evaluate("getComputedStyle(document.body).fontFamily").partition(", ")[0]
    assert face == '"Inter Variable"'
    # The system's sans-serif may be as wide as Inter; monospace is not.
    page.evaluate("faces => { document.body.style.fontFamily = faces }", f"{face}, {FALLBACK_FACE}")
    draw_all(page)
    for kind in ("png", "svg"):
        page.locator("#figure-lambda summary", has_text="Export").click()
        with page.expect_download() as download:
            page.locator(f"#figure-lambda [data-export={kind}]").click()
        download.value.save_as(tmp_path / f"picture.{kind}")
    svg = (tmp_path / "picture.svg").read_text()
    assert svg.count('src: url("data:font/woff2;base64,') == 2, "Latin and Greek letters, for programs without Inter"

    title = page.locator("#figure-lambda h3").text_content()
    inter, fallback = (page.evaluate(TITLE_WIDTH, [title, family]) for family in (face, FALLBACK_FACE))
    assert abs(inter - fallback) > 5
    ink = np.asarray(Image.open(tmp_path / "picture.png").convert("L"))[: TITLE["height"] * TITLE["scale"]] < 200
    assert np.flatnonzero(ink.any(axis=0)).max() / TITLE["scale"] == pytest.approx(TITLE["x"] + inter, abs=2)
