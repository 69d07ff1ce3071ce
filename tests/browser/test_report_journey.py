import io
import re
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import is_complaint

HOSTILE = "</script><script>alert(1)</script>"


@pytest.fixture(scope="module")
def report(dashboard):
    cloud = np.random.default_rng(0).normal(size=(400, 8)) * np.arange(1, 9)
    np.savez(buffer := io.BytesIO(), vectors=cloud, words=np.array([f"word{i}" for i in range(len(cloud))]))
    embedding_id = dashboard.measure("cloud.npz", buffer.getvalue(), data={"name": HOSTILE})
    return f"{dashboard.url}/embeddings/{embedding_id}"


def test_keyboard_opens_tabs_and_figure_numbers(report, page: Page):
    page.goto(report)
    expect(page.locator("#figure-spectrum")).to_have_count(0)
    tab = page.get_by_role("navigation", name="Parts of this page").get_by_role("link", name="Details")
    tab.press("Enter")
    expect(page).to_have_url(re.compile(r"\?tab=details$"))
    expect(tab).to_have_attribute("aria-current", "page")
    expect(page.locator("#figure-spectrum .js-plotly-plot")).to_be_visible()
    expect(page.locator("#figure-twonn .js-plotly-plot")).to_have_count(0)
    spectrum = page.locator("#figure-spectrum")
    expect(spectrum.get_by_role("cell")).to_have_count(0)
    spectrum.get_by_text("Numbers", exact=True).press("Enter")
    expect(spectrum.get_by_role("row")).to_have_count(1 + 8)
    page.get_by_role("heading", name="Neighborhoods").locator("..").press("Enter")
    expect(page.locator("#figure-twonn .js-plotly-plot")).to_be_visible()


@pytest.mark.long
def test_downloaded_report_makes_no_request(report, browser, page: Page, tmp_path: Path):
    page.goto(report)
    with page.expect_download() as download:
        page.get_by_text("More", exact=True).click()
        page.get_by_role("link", name="Report as a file").click()
    assert download.value.suggested_filename == "isoscope-script-script-alert-1-script.html"
    report_path = tmp_path / "report.html"
    download.value.save_as(report_path)
    context = browser.new_context(offline=True, color_scheme="dark")
    file_page = context.new_page()
    requested_urls, complaints = [], []
    file_page.on("request", lambda request: requested_urls.append(request.url))
    file_page.on("console", lambda message: complaints.append(message.text) if is_complaint(message) else None)
    file_page.on("pageerror", lambda error: complaints.append(str(error)))
    file_page.on("dialog", lambda dialog: complaints.append(dialog.message))
    file_page.goto(report_path.as_uri())
    plots = file_page.locator("[data-figure]")
    expect(file_page.locator(".js-plotly-plot .main-svg:first-child")).to_have_count(plots.count())
    assert plots.count() >= 6
    expect(file_page.get_by_role("heading", level=1)).to_have_text(HOSTILE)
    assert [url for url in requested_urls if not url.startswith(("data:", "blob:", report_path.as_uri()))] == []
    assert complaints == []

    file_page.locator("#figure-spectrum .menu summary").click()
    with file_page.expect_download() as numbers:
        file_page.locator("#figure-spectrum").get_by_role("link", name="CSV").click()
    assert Path(numbers.value.path()).read_text().startswith("component,eigenvalue\n1,")

    pitfall = file_page.get_by_text("Biased low unless n is many times d").first
    expect(pitfall).to_be_hidden()
    file_page.emulate_media(media="print")
    expect(pitfall).to_be_visible()
    assert file_page.evaluate("getComputedStyle(document.body).color") == "rgb(28, 32, 36)"
    expect(file_page.locator("#figure-spectrum .menu")).to_be_hidden()
    assert file_page.pdf(prefer_css_page_size=True).startswith(b"%PDF")
    context.close()
