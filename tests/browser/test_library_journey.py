import io
import re

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from tests.page_actions import draw_all


@pytest.fixture
def round_id(dashboard, cloud) -> str:
    for name, matrix in (("stretched", cloud), ("round", cloud / cloud.std(0))):
        np.save(file := io.BytesIO(), matrix)
        round_id = dashboard.measure("cloud.npy", file.getvalue(), data={"name": name})
    return round_id


def row(page: Page, name: str):
    return page.get_by_role("row").filter(has=page.get_by_role("link", name=name, exact=True))


def check_trash_on_phone(page: Page) -> None:
    expect(page.get_by_role("button", name="Undo")).to_be_visible()
    page.get_by_role("link", name="Trash", exact=True).click()
    page.set_viewport_size({"width": 390, "height": 800})
    expect(row(page, "round").get_by_role("cell", name=re.compile(r"[\d.]+ kB$"))).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.set_viewport_size({"width": 1280, "height": 900})


@pytest.mark.long
def test_embeddings_are_tagged_compared_trashed_and_purged(dashboard, page, round_id):
    page.goto(f"{dashboard.url}/embeddings")
    page.get_by_role("link", name="round", exact=True).click()
    page.get_by_text("More", exact=True).click()
    page.get_by_role("link", name="Name, tags and notes").click()
    page.get_by_label("Tags").fill("Whitened, control")
    page.get_by_label("Notes").fill("divided by\nits spread")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("paragraph").filter(has_text="divided by")).to_have_text("divided by\nits spread")
    page.get_by_role("link", name="tag Whitened").press("Enter")
    expect(page).to_have_url(re.compile(r"/embeddings\?tag=Whitened$"))
    expect(row(page, "round")).to_be_visible()
    expect(row(page, "stretched")).to_have_count(0)

    page.locator("select[name=tag]").select_option("")
    expect(row(page, "stretched")).to_be_visible()
    page.get_by_label("Search").press_sequentially("SPREAD contr")
    expect(row(page, "stretched")).to_have_count(0)
    expect(page).to_have_url(re.compile(r"q=SPREAD\+contr"))
    page.get_by_label("Search").fill("")
    expect(row(page, "stretched")).to_be_visible()

    page.get_by_role("link", name="Name", exact=True).click()
    expect(page.get_by_role("columnheader", name="Name")).to_have_attribute("aria-sort", "ascending")
    for name in ("round", "stretched"):
        page.get_by_label(f"Select {name}").check()
    page.get_by_role("button", name="Compare", exact=True).click()
    draw_all(page)
    expect(page.locator("#figure-projection .js-plotly-plot")).to_be_visible()
    corrected = page.get_by_role("link", name="IsoScore, bias-corrected", exact=True)
    cell = page.locator("tr", has=corrected).get_by_role("cell").last
    expect(cell).to_contain_text("differs")
    expect(cell).to_contain_text("+0.")
    page.get_by_role("link", name=re.compile("make baseline")).click()
    expect(cell).to_contain_text("−0.")
    page.get_by_role("link", name="Only those that differ").click()
    expect(page).to_have_url(re.compile("show=differing"))

    page.locator("ol").get_by_role("link", name="round", exact=True).click()
    page.get_by_text("More", exact=True).click()
    page.get_by_role("button", name="Move to the trash").click()
    expect(row(page, "round")).to_have_count(0)
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_role("heading", name="round")).to_be_visible()
    page.get_by_text("More", exact=True).click()
    page.get_by_role("button", name="Move to the trash").click()
    check_trash_on_phone(page)
    page.get_by_role("link", name="Delete round for good").click()
    expect(page.get_by_text(re.compile(r"[\d.]+ kB of the storage are freed"))).to_be_visible()
    page.get_by_role("button", name="Delete permanently").click()
    expect(page).to_have_url(re.compile("/trash$"))
    expect(row(page, "round")).to_have_count(0)
    listed = [embedding["id"] for embedding in dashboard.get("/api/embeddings")]
    assert round_id not in listed
