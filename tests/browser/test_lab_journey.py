import re

import numpy as np
import pytest
from playwright.sync_api import expect

from tests.waiting import wait_for


@pytest.fixture(scope="module")
def lab(dashboard):
    cloud = np.random.default_rng(0).normal(size=(400, 8)) * np.array([10.0] + [1.0] * 7)
    lines = [",".join([f"word{i}", *map(str, row)]) for i, row in enumerate(cloud.round(4))]
    content = "\n".join([",".join(["name", *(f"x{i}" for i in range(8))]), *lines]).encode()
    return f"{dashboard.url}/embeddings/{dashboard.measure('cloud.csv', content)}/lab"


@pytest.mark.long
def test_slider_leads_to_result_and_new_embedding(lab, page):
    page.goto(lab.replace("/lab", "/tasks"))
    page.get_by_role("link", name="Soft ZCA whitening").click()
    expect(page.get_by_text("is not measured yet")).to_be_visible()
    page.get_by_role("button", name="Try it").click()
    expect(page).to_have_url(re.compile(r"method=soft_zca&eps=0.1$"))
    table = page.get_by_role("region", name="Scores before and after")
    expect(table.get_by_role("rowheader", name="IsoScore [0, 1]")).to_be_visible()

    page.get_by_label("ε, slider").press("ArrowRight")
    expect(page.get_by_label("ε", exact=True)).to_have_value("0.11")
    expect(page).to_have_url(re.compile(r"eps=0.11$"))
    expect(page.get_by_role("heading", name="Soft ZCA whitening, eps 0.11")).to_be_visible()
    expect(page.get_by_role("button", name="Keep as an embedding")).to_be_visible()
    page.get_by_text("Figures before and after").click()
    expect(page.locator("#figure-spectrum .js-plotly-plot")).to_be_visible()
    page.get_by_label("ε", exact=True).fill("1")
    expect(page.get_by_label("ε, slider")).to_have_value("0")

    page.reload()
    expect(page.get_by_role("heading", name="Soft ZCA whitening, eps 0.11")).to_be_visible()
    page.get_by_text("Nearest neighbors before and after").click()
    name = page.locator("#names option").nth(7).get_attribute("value")
    page.get_by_label("Look up").fill(name)
    page.get_by_role("button", name="Look up").click()
    expect(page.get_by_role("region", name=f"Neighbors of {name}")).to_be_visible()
    expect(page).to_have_url(re.compile(f"name={name}$"))

    page.get_by_role("button", name="Keep as an embedding").click()
    expect(page.get_by_role("link", name="Map & neighbors", exact=True)).to_be_visible()
    expect(page.locator("#provenance")).to_contain_text("Made from cloud.csv by Soft ZCA whitening, eps 0.11")
    page.get_by_text("More", exact=True).click()
    page.keyboard.press("Escape")
    expect(page.get_by_text("More", exact=True)).to_be_focused()
    expect(page.locator(".head .menu > div")).to_be_hidden()
    page.get_by_role("link", name="Details", exact=True).click()
    page.get_by_role("heading", name="Source and files").click()
    expect(page.get_by_role("link", name="Download as safetensors")).to_be_visible()
    with page.expect_download() as download:
        page.get_by_role("link", name=re.compile(r"\.npy$")).click()
    assert np.load(download.value.path()).shape == (400, 8)
    page.get_by_role("link", name="See its trial").click()
    expect(page.get_by_role("heading", name="Soft ZCA whitening, eps 0.11")).to_be_visible()


def test_invalid_number_is_reported_at_its_field(lab, page):
    page.goto(f"{lab}?method=all_but_the_top")
    box = page.get_by_label("D", exact=True)
    box.evaluate("box => box.removeAttribute('max')")
    box.fill("9")
    box.blur()
    expect(box).to_have_attribute("aria-invalid", "true")
    expect(page.locator("#dial-D-error")).to_contain_text("from 0 to 8: there are 8 dimensions; got 9")
    box.fill("2")
    box.blur()
    expect(page).to_have_url(re.compile("D=2$"))
    expect(page.get_by_role("heading", name="All-but-the-Top, D 2")).to_be_visible()
    expect(box).not_to_have_attribute("aria-invalid", "true")


def test_lab_works_without_javascript(lab, browser):
    context = browser.new_context(java_script_enabled=False, viewport={"width": 390, "height": 800})
    page = context.new_page()
    page.goto(lab.replace("/lab", "/tasks"))
    page.get_by_role("link", name="Soft ZCA whitening").click()
    expect(page.get_by_label("ε, slider")).to_be_hidden()
    page.get_by_label("ε", exact=True).fill("0.5")
    page.get_by_role("button", name="Try it").first.click()
    expect(page).to_have_url(re.compile("method=soft_zca&eps=0.5$"))

    def has_result():
        page.reload()
        return page.get_by_role("button", name="Keep as an embedding").count() == 1

    wait_for(has_result, 60)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    context.close()
