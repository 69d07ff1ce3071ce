import pytest
from playwright.sync_api import Locator, Page, expect

from app.db.models import RunStatus
from isotropy.catalog import MEASURES

MAX_TABS = 200


def tab_to(page: Page, target: Locator) -> None:
    """Press Tab until the target has a visible focus."""
    for _ in range(MAX_TABS):
        page.keyboard.press("Tab")
        if target.evaluate("element => element === document.activeElement"):
            assert target.evaluate("element => element.matches(':focus-visible')")
            return
    raise AssertionError(f"{MAX_TABS} presses of Tab do not reach {target}")


def press(page: Page, target: Locator) -> None:
    tab_to(page, target)
    page.keyboard.press("Enter")


def write(page: Page, field: Locator, text: str) -> None:
    tab_to(page, field)
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.type(text)


def wait_for_poll(page: Page) -> None:
    page.evaluate(
        "() => new Promise((done) => document.addEventListener('htmx:after:swap', () => done(), { once: true }))"
    )


@pytest.mark.long
def test_keyboard_launches_sweep_and_cancels_run(filled, page):
    page.goto(filled.url)
    page.keyboard.type("ge")
    expect(page.get_by_role("heading", level=1)).to_have_text("Experiments")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the page")).to_be_focused()
    page.keyboard.press("Enter")
    press(page, page.get_by_role("button", name="Launch a sweep"))

    lambdas = page.get_by_label("λ values", exact=True)
    write(page, lambdas, "3")
    expect(page.locator("#plan")).to_contain_text("6 runs")
    expect(lambdas).to_be_focused()
    write(page, page.get_by_label("Seeds", exact=True), "0")
    expect(page.locator("#plan strong")).to_have_text("2 runs")
    press(page, page.locator("summary", has_text="Name: after"))
    write(page, page.get_by_label("Name", exact=True), "Without a mouse")
    press(page, page.get_by_role("button", name="Launch", exact=True))

    expect(page.get_by_role("heading", level=1)).to_have_text("Without a mouse")
    press(page, page.get_by_role("link", name="Runs", exact=True))
    details = page.get_by_role("link", name="λ = 3, seed 0", exact=True)
    tab_to(page, details)
    wait_for_poll(page)
    expect(details).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text("λ = 3, seed 0")
    press(page, page.get_by_role("button", name="More"))
    cancel = page.get_by_role("button", name="Cancel this run")
    tab_to(page, cancel)
    wait_for_poll(page)
    expect(cancel).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_text("cancelled")).to_be_visible()


def test_queue_button_keeps_focus_when_run_moves(filled, page):
    page.goto(f"{filled.url}/queue")
    run = filled.run(filled.waiting, RunStatus.QUEUED)
    row = page.locator(f"#run-{run}")
    first_cell = row.get_by_role("cell").first
    before = int(first_cell.inner_text())
    down = row.get_by_role("button", name="Down")
    press(page, down)
    expect(first_cell).to_have_text(str(before + 1))
    expect(down).to_be_focused()
    page.keyboard.press("Enter")
    expect(first_cell).to_have_text(str(before + 2))
    expect(down).to_be_focused()
    press(page, row.get_by_role("button", name="Last"))
    expect(down).to_have_count(0)
    expect(row.get_by_role("link").first).to_be_focused()


def test_shortcuts_open_pages_and_can_be_disabled(filled, page):
    url = filled.url
    page.goto(f"{url}/measures")
    page.keyboard.type("gd")
    expect(page).to_have_url(f"{url}/embeddings")
    page.keyboard.press("?")
    keys = page.get_by_role("dialog", name="Keyboard shortcuts")
    expect(keys).to_be_visible()
    keys.get_by_label("Use these shortcuts").uncheck()
    page.keyboard.press("Escape")
    expect(keys).to_be_hidden()
    page.keyboard.type("gl")
    expect(page).to_have_url(f"{url}/embeddings")
    page.get_by_role("button", name="Shortcuts").click()
    keys.get_by_label("Use these shortcuts").check()
    keys.get_by_role("button", name="Close").click()
    page.keyboard.type("gq")
    expect(page).to_have_url(f"{url}/queue")


def test_link_to_variant_opens_enclosing_folds(filled, page):
    variant = next(measure for measure in MEASURES.values() if measure.variant_of)
    page.goto(f"{filled.url}/measures")
    variant_item = page.locator(f"#{variant.slug}")
    expect(variant_item).to_be_hidden()
    page.goto(f"{filled.url}/measures#{variant.slug}")
    expect(variant_item).to_be_visible()
    expect(variant_item).to_be_in_viewport()
    assert page.locator("details.fold[open]").count() == 2
