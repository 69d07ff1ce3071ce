import re

import pytest
from playwright.sync_api import Page, expect

from tests.waiting import wait_for

CAMERA = "document.querySelector('#figure-cloud .js-plotly-plot')._fullLayout.scene.camera"


def open_playground(page: Page, url: str) -> None:
    page.goto(f"{url}/playground")
    expect(page.locator("#figure-cloud canvas").first).to_be_visible()
    expect(page.locator("#figure-shift .main-svg").first).to_be_visible()


def find_reading(page: Page, name: str):
    return page.locator(".reading", has=page.get_by_role("link", name=name, exact=True)).locator(".value")


def turn_camera(page: Page) -> dict[str, float]:
    before = page.evaluate(CAMERA)
    box = page.locator("#figure-cloud .plot").bounding_box()
    assert box
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 80, y + 20, steps=5)
    page.mouse.up()
    wait_for(lambda: page.evaluate(f"before => {CAMERA}.eye.x !== before.eye.x", before), 60)
    return page.evaluate(CAMERA)


@pytest.mark.long
def test_sliders_update_numbers_url_and_cloud(filled, page):
    open_playground(page, filled.url)
    turned = turn_camera(page)
    page.evaluate("window.sameDocument = true")
    page.get_by_role("slider", name="Shift").fill("1")
    expect(find_reading(page, "Mean cosine similarity")).to_have_text("0.506")
    expect(find_reading(page, "IsoScore")).to_have_text("0.989")
    expect(page).to_have_url(re.compile(r"shape=gaussian&shift=1&spread=1&n=512"))
    wait_for(lambda: page.evaluate("document.querySelector('#figure-cloud .js-plotly-plot').data.at(-1).x[1] === 1"))
    page.get_by_label("Shape").select_option("line")
    expect(page.get_by_text("Spread: standard deviation across the line")).to_be_visible()
    page.get_by_role("link", name="A line through the origin").click()
    expect(page.get_by_text("A cosine near 0 is not isotropy.")).to_be_visible()
    expect(page.get_by_role("slider", name="Spread")).to_have_value("0")
    wait_for(lambda: page.evaluate("document.querySelector('#figure-cloud .js-plotly-plot').data.at(-1).x[1] === 0"))
    assert page.evaluate(CAMERA)["eye"] == turned["eye"]
    assert page.evaluate("window.sameDocument")
    page.reload()
    expect(page.get_by_text("A cosine near 0 is not isotropy.")).to_be_visible()


@pytest.mark.long
def test_keyboard_moves_every_slider(filled, page):
    open_playground(page, filled.url)
    page.get_by_role("link", name="Too few points").focus()
    page.keyboard.press("Tab")
    expect(page.get_by_label("Shape")).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(page).to_have_url(re.compile("shape=cone"))
    expect(page.get_by_label("Shape")).to_be_focused()

    page.keyboard.press("Tab")
    expect(page.get_by_role("slider", name="Shift")).to_be_focused()
    page.keyboard.press("Home")
    expect(page.get_by_text("Around the origin and even")).to_be_visible()
    page.keyboard.press("ArrowRight")
    expect(page).to_have_url(re.compile("shift=1"))
    expect(page.get_by_text("because the cloud lies away from the origin")).to_be_visible()

    page.keyboard.press("Tab")
    expect(page.get_by_role("slider", name="Spread")).to_be_focused()
    page.keyboard.press("Home")
    expect(find_reading(page, "IsoScore")).to_have_text("0")

    page.keyboard.press("Tab")
    expect(page.get_by_label("Points n")).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(page).to_have_url(re.compile("n=2000"))
    expect(page.get_by_role("heading", name="Narrow cone, 2,000 points")).to_be_visible()


@pytest.mark.long
def test_flat_view_loads_no_webgl_bundle(filled, page):
    requested_urls: list[str] = []
    page.on("request", lambda request: requested_urls.append(request.url))
    page.goto(f"{filled.url}/playground?view=flat")
    expect(page.locator("#figure-cloud .subplot")).to_have_count(3)
    page.get_by_role("slider", name="Shift").press("ArrowLeft")
    expect(page).to_have_url(re.compile("shift=6.*view=flat"))
    expect(page.locator("#figure-cloud .subplot")).to_have_count(3)
    expect(page.locator("#figure-cloud canvas")).to_have_count(0)
    assert [url for url in requested_urls if "plotly-strict" in url] == []
    page.get_by_role("link", name="in space").click()
    expect(page.locator("#figure-cloud canvas").first).to_be_visible()
    assert len([url for url in requested_urls if "plotly-strict" in url]) == 1


def test_missing_webgl_bundle_fails_only_its_figure(filled, page):
    page.route("**/plotly-strict*", lambda route: route.abort("connectionreset"))
    page.goto(f"{filled.url}/playground")
    message = "This figure could not be drawn. What draws it could not be fetched. Reload the page to try again."
    expect(page.locator("#figure-cloud .plot")).to_have_text(message)
    expect(page.locator("#figure-sample_size .js-plotly-plot, #figure-shift .js-plotly-plot").first).to_be_visible()


@pytest.mark.long
def test_controls_match_cloud_after_every_change(filled, page):
    open_playground(page, filled.url)
    shape, title = page.get_by_label("Shape"), page.locator("#figure-cloud h3")
    examples = page.get_by_role("list", name="Examples").get_by_role("link")
    names = shape.locator("option").all_inner_texts()
    assert len(names) == 6
    for turn, name in enumerate(names[::2]):
        shape.select_option(label=name)
        expect(title).to_contain_text(name)
        page.get_by_role("slider", name="Spread").fill("0.4")
        expect(page).to_have_url(re.compile("spread=0.4"))
        page.get_by_role("link", name=("flat", "in space")[turn % 2]).click()
        expect(page).to_have_url(re.compile("view=flat" if turn % 2 == 0 else r"n=\d+$"))
        examples.nth(turn % 5).click()
        expect(examples.nth(turn % 5)).to_have_attribute("aria-current", "true")
        expect(title).to_have_text(re.compile(rf"^{shape.locator('option:checked').inner_text()}, "))
        url_values = dict(re.findall(r"(shape|shift|spread|n)=([\w.]+)", page.url))
        boxes = {name: page.locator(f"[name={name}]").input_value() for name in ("shape", "shift", "spread", "n")}
        assert boxes == url_values
    page.reload()
    expect(title).to_contain_text(shape.locator("option:checked").inner_text())
