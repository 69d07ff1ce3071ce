"""A figure as a PDF: printed alone by the browser, as wide as a paper's column or page, with its caption."""

import re

import pytest
from playwright.sync_api import expect

from tests.drawing import draw_all

POINTS = {"column": 3.25 * 72, "page": 6.75 * 72}


@pytest.mark.parametrize("size", POINTS)
def test_a_figure_is_printed_alone_at_the_width_of_a_paper(filled, page, size):
    page.goto(f"{filled.url}/experiments/{filled.finished}?x=lam")
    draw_all(page)
    page.evaluate("window.print = () => { window.printed = document.title; }")
    page.locator(f"[data-export=pdf][data-sheet={size}]").click()
    page.wait_for_function("window.printed")
    assert page.evaluate("window.printed") == "All-finished-lambda"
    sheet = page.locator("figure.sheet")
    caption = page.locator("#figure-lambda figcaption").text_content()
    assert " ".join(sheet.locator("figcaption").text_content().split()) == " ".join(caption.split())
    pdf = page.pdf(prefer_css_page_size=True)
    (box,) = re.findall(rb"/MediaBox \[0 0 ([\d.]+) [\d.]+\]", pdf)
    assert float(box) == pytest.approx(POINTS[size], abs=1)
    assert pdf.count(b"/Type /Page\n") == 1, "what is beside the figure stays on the screen"
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    expect(sheet).to_have_count(0)
    expect(page).to_have_title(re.compile("All finished"))
