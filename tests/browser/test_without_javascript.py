import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.page_actions import follow
from tests.waiting import wait_for

PATHS = ("/", "/embeddings", "/encodings", "/datasets", "/trash", "/compare", "/compare/runs", "/experiments",
         "/measures", "/queue", "/playground")  # fmt: skip


@pytest.fixture
def plain(open_page) -> Page:
    return open_page(java_script_enabled=False)


def queued_ids(page: Page) -> list[str]:
    rows = page.get_by_role("region", name="Waiting runs").locator("tbody tr")
    return rows.evaluate_all("rows => rows.map(row => row.id)")


def test_pages_need_no_javascript(filled, plain):
    for path in PATHS:
        assert plain.goto(filled.url + path).status == 200
        expect(plain.get_by_role("navigation", name="Main")).to_be_visible()
        expect(plain.get_by_role("heading", level=1)).to_be_visible()


def test_undrawn_plots_take_little_height(dashboard, measured, plain):
    for tab in ("?tab=map", "?tab=details"):
        plain.goto(f"{dashboard.url}/embeddings/{measured['embedding']}{tab}")
        heights = plain.locator(".plot").evaluate_all("plots => plots.map((plot) => plot.offsetHeight)")
        assert heights
        assert max(heights) <= 100


def test_sweep_is_planned_launched_and_cancelled(filled, plain):
    plain.goto(f"{filled.url}/experiments/new?dataset_id={filled.dataset}")
    plain.get_by_label("λ values", exact=True).fill("abc")
    plain.get_by_role("button", name="Update preview").click()
    expect(plain.locator("#plan")).to_contain_text("Enter a number, not 'abc'.")
    plain.get_by_label("λ values", exact=True).fill("1, 2")
    plain.get_by_role("checkbox", name="CosReg").check()
    plain.get_by_role("button", name="Update preview").click()
    expect(plain.locator("#plan strong")).to_have_text("15 runs")
    plain.get_by_text("Name: after model and data set").click()
    plain.get_by_label("Name", exact=True).fill("By hand")
    plain.get_by_role("button", name="Launch", exact=True).click()
    expect(plain.get_by_role("heading", level=1)).to_have_text("By hand")
    expect(plain.get_by_text("0 of 15 runs finished")).to_be_visible()
    plain.get_by_text("More", exact=True).click()
    plain.get_by_role("button", name="Cancel all").click()
    expect(plain.get_by_text("15 cancelled")).to_be_visible()


def test_runs_are_searched_sorted_and_paged(filled, plain):
    plain.goto(f"{filled.url}/experiments/{filled.finished}?tab=runs")
    rows = plain.get_by_role("region", name="Runs", exact=True).locator("tbody tr")
    expect(rows).to_have_count(50)
    plain.get_by_role("link", name="Next").click()
    expect(rows).to_have_count(10)
    plain.get_by_label("Search runs").fill("lam>=8 seed:0")
    plain.get_by_role("button", name="Search").click()
    expect(rows).to_have_count(3)
    follow(plain.get_by_role("columnheader", name="λ").get_by_role("link"))
    assert [float(text) for text in rows.locator("th").all_inner_texts()] == [8, 10, 20]
    follow(plain.get_by_role("columnheader", name="λ").get_by_role("link"))
    assert [float(text) for text in rows.locator("th").all_inner_texts()] == [20, 10, 8]


def test_experiment_figures_show_numbers(filled, plain):
    plain.goto(f"{filled.url}/experiments/{filled.finished}")
    plain.get_by_role("combobox", name="X axis").select_option("lam")
    plain.get_by_role("button", name="Show").first.click()
    plain.locator("#figure-lambda").get_by_text("Numbers", exact=True).click()
    expect(plain.locator("#numbers-lambda tbody tr")).to_have_count(10)
    plain.get_by_role("link", name="Training", exact=True).click()
    plain.get_by_role("link", name="Open Learning curves").click()
    plain.locator("summary", has_text="Export").first.click()
    assert plain.locator(".menu > div > :visible").all_inner_texts() == ["CSV, the numbers", "JSON, for plotly"]
    plain.get_by_text("Numbers", exact=True).click()
    expect(plain.locator("#numbers-learning tbody tr").first).to_be_visible()


def import_file(page: Page, url: str, file: Path) -> None:
    page.goto(f"{url}/experiments/import")
    page.get_by_label("Zip file of an experiment").set_input_files(file)
    page.get_by_role("button", name="Import").click()
    page.wait_for_url(re.compile(r"/(imports|experiments)/\w{32}$"))

    def has_ended() -> bool:
        page.goto(page.url)
        return page.get_by_role("progressbar").count() == 0

    wait_for(has_ended, seconds=90)


@pytest.mark.long
def test_experiment_is_exported_and_imported(filled, second_dashboard, plain, tmp_path):
    plain.goto(f"{filled.url}/experiments/{filled.troubled}?tab=export")
    with plain.expect_download() as download:
        plain.get_by_role("link", name="Archive").click()
    download.value.save_as(tmp_path / "troubled.zip")
    import_file(plain, second_dashboard, tmp_path / "troubled.zip")
    expect(plain.get_by_role("heading", level=1)).to_have_text("A sweep, ζ = 0.2")
    expect(plain.get_by_text("1 cancelled")).to_be_visible()
    import_file(plain, second_dashboard, tmp_path / "troubled.zip")
    expect(plain.get_by_text("This experiment already exists: A sweep, ζ = 0.2.")).to_be_visible()


def test_runs_are_moved_paused_and_resumed(filled, plain):
    plain.goto(f"{filled.url}/queue")
    first, second, *remaining = queued_ids(plain)
    row = plain.locator(f"#{first}")
    follow(row.get_by_role("button", name="Down"))
    assert queued_ids(plain) == [second, first, *remaining]
    follow(row.get_by_role("button", name="Last"))
    assert queued_ids(plain) == [second, *remaining, first]
    follow(row.get_by_role("button", name="Pause"))
    assert queued_ids(plain) == [second, *remaining]

    plain.goto(f"{filled.url}/runs/{first.removeprefix('run-')}")
    plain.get_by_role("button", name="Resume").click()
    expect(plain.get_by_role("status")).to_have_text("queued")
