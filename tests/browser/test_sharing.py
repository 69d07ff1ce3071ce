import re

import pytest
from playwright.sync_api import Page, expect

from tests.page_actions import draw_all, follow


def read_figures(page: Page) -> dict[str, str]:
    draw_all(page)
    return page.evaluate(
        """() => Object.fromEntries([...document.querySelectorAll("figure:has([data-figure])")].map((figure) =>
             [figure.id, JSON.stringify(figure.querySelector(".js-plotly-plot").data)]))"""
    )


def read_cells(page: Page, region: str) -> list[str]:
    return page.get_by_role("region", name=region, exact=True).get_by_role("cell").all_inner_texts()


@pytest.mark.long
def test_form_round_trips_through_yaml(filled, page, tmp_path):
    form = f"{filled.url}/experiments/new?dataset_id={filled.dataset}"
    page.goto(form)
    page.get_by_role("checkbox", name="CosReg").check()
    page.get_by_label("λ values", exact=True).fill("-2, 0.5")
    page.get_by_label("Seeds", exact=True).fill("3, 4")
    page.get_by_text("Optimizer and schedule:").click()
    page.get_by_label("Learning rate").fill("0.0001")
    expect(page.locator("#plan strong")).to_have_text("10 runs")
    page.get_by_text("Command line, API, Python").click()
    yaml_region = page.get_by_role("region", name="YAML")
    expect(yaml_region).to_contain_text("learning_rate: 0.0001")
    yaml = yaml_region.inner_text()

    (yaml_path := tmp_path / "sweep.yaml").write_text(yaml)
    for fill_in in (
        lambda: page.get_by_label("Or its text").fill(yaml),
        lambda: page.get_by_label("A file of YAML").set_input_files(yaml_path),
    ):
        page.goto(form)
        expect(page.get_by_label("Seeds", exact=True)).to_have_value("0, 1, 2")
        page.get_by_text("Fill in from a file").click()
        fill_in()
        page.get_by_role("button", name="Fill in the form").click()
        expect(page.get_by_label("Seeds", exact=True)).to_have_value("3, 4")
        expect(page.get_by_role("checkbox", name="CosReg")).to_be_checked()
        expect(page.locator("#plan strong")).to_have_text("10 runs")
        page.get_by_text("Command line, API, Python").click()
        expect(yaml_region).to_have_text(yaml)


@pytest.mark.long
def test_address_restores_page_in_another_browser(filled, open_page):
    page = open_page()
    page.goto(f"{filled.url}/experiments/{filled.finished}")
    page.get_by_role("combobox", name="X axis").select_option("lam")
    page.get_by_label("Error bars").select_option("se")
    expect(page).to_have_url(re.compile("error=se"))
    drawn = read_figures(page)
    assert "figure-lambda" in drawn
    page.get_by_role("link", name="Runs", exact=True).click()
    page.get_by_label("Search runs").fill("lam>0 seed:0,1")
    expect(page.locator("#found-runs-status")).to_contain_text("12 runs")
    page.get_by_role("columnheader", name="IsoScore★").get_by_role("link").click()
    expect(page.get_by_role("columnheader", name="IsoScore★")).to_have_attribute("aria-sort", "descending")
    expect(page).to_have_url(re.compile("sort="))

    second_page = open_page()
    second_page.goto(page.url)
    expect(second_page.get_by_label("Search runs")).to_have_value("lam>0 seed:0,1")
    assert read_cells(second_page, "Runs") == read_cells(page, "Runs")
    isotropy = [float(row) for row in second_page.locator("#found-runs td.n:nth-last-child(3)").all_inner_texts()]
    assert len(isotropy) == 12
    assert isotropy == sorted(isotropy, reverse=True)
    for viewer in (page, second_page):
        follow(viewer.get_by_role("link", name="Result", exact=True))
        expect(viewer.get_by_label("Error bars")).to_have_value("se")
    assert read_figures(second_page) == read_figures(page)
    assert read_figures(second_page).keys() == drawn.keys()


def read_views(page: Page, address: str) -> tuple[dict[str, str], str, list[str]]:
    drawn: dict[str, str] = {}
    conclusion = ""
    for tab in ("result", "runs"):
        page.goto(f"{address}?tab={tab}")
        drawn |= read_figures(page)
        conclusion = page.locator(".conclusion").inner_text() if tab == "result" else conclusion
    return drawn, conclusion, read_cells(page, "Runs")


@pytest.mark.long
def test_imported_experiment_shows_same_results(filled, second_dashboard, page, tmp_path):
    drawn, conclusion, runs = read_views(page, f"{filled.url}/experiments/{filled.finished}")
    assert {"figure-isotropy", "figure-parallel"} < drawn.keys()
    page.get_by_role("link", name="Export", exact=True).click()
    with page.expect_download() as download:
        page.get_by_role("link", name="Archive", exact=True).click()
    download.value.save_as(tmp_path / download.value.suggested_filename)

    page.goto(f"{second_dashboard}/experiments")
    expect(page.get_by_text("No experiments yet")).to_be_visible()
    page.get_by_role("button", name="Import").click()
    page.get_by_label("Zip file of an experiment").set_input_files(tmp_path / download.value.suggested_filename)
    page.get_by_role("button", name="Import").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("All finished")
    assert read_views(page, page.url) == (drawn, conclusion, runs)
