import csv
import io
import os
import re
from pathlib import Path
from statistics import fmean
from urllib.parse import urlsplit

import numpy as np
import pytest
from playwright.sync_api import expect

from tests.dashboards import ROWS
from tests.page_actions import follow
from tests.waiting import wait_for

WORD2VEC = Path(os.environ.get("ISOSCOPE_BENCH_DATA", "")) / "embeddings" / "word2vec_googlenews_300d_8k.npz"


@pytest.fixture
def vectors(tmp_path: Path, cloud: np.ndarray) -> Path:
    path = tmp_path / "cloud.npz"
    np.savez(path, vectors=cloud, words=np.array([f"word{i}" for i in range(len(cloud))]))
    return path


@pytest.fixture
def rows(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / name for name in ("train.tsv", "validation.tsv")]
    for path in paths:
        path.write_text(ROWS)
    return paths


def test_embedding_is_uploaded_measured_and_purged(dashboard, page, vectors):
    page.goto(f"{dashboard.url}/embeddings")
    page.get_by_label("A file of vectors").set_input_files(vectors)
    page.get_by_role("button", name="Upload and preview").click()
    expect(page.get_by_text("400 × 8", exact=True)).to_be_visible()
    expect(page.get_by_role("cell", name="word0", exact=True)).to_be_visible()
    page.get_by_role("button", name="Measure these embeddings").click()
    expect(page.get_by_role("navigation", name="Parts of this page")).to_be_visible()
    expect(page.locator("#map-plot .js-plotly-plot")).to_be_visible()

    page.get_by_role("link", name="Details", exact=True).click()
    expect(page.locator("#figure-spectrum .js-plotly-plot")).to_be_visible()
    expect(page.locator("[data-figure]:visible:not(:has(.js-plotly-plot))")).to_have_count(0)
    page.get_by_role("heading", name="All measures").click()
    measures = page.get_by_role("region", name="All measures")
    table = measures.get_by_role("table", name="Mean, directions and dimensions")
    expect(table.get_by_role("rowheader", name="Mean cosine similarity")).to_be_visible()
    shares = measures.get_by_label("Numbers of k-th anisotropy, centered")
    expect(shares).to_be_hidden()
    measures.locator("summary", has_text=re.compile(r"Related: .*k-th anisotropy, centered")).press("Enter")
    measures.get_by_text("8 values of k-th anisotropy, centered").press("Enter")
    expect(shares.get_by_role("row")).to_have_count(1 + 8)
    with page.expect_download() as download:
        measures.get_by_role("link", name="as CSV").click()
    assert download.value.suggested_filename == "isoscope-measurements.csv"
    (first, *_) = csv.DictReader(io.StringIO(Path(download.value.path()).read_text()))
    assert (first["measure"], first["n"]) == ("isoscore_unbiased", "400")

    page.get_by_role("heading", name="IsoScore★ and its shrinkage").click()
    expect(page.locator("#figure-zeta .js-plotly-plot")).to_be_visible()
    page.get_by_role("slider").fill("0.5")
    expect(page).to_have_url(re.compile("zeta=0.5"))
    page.reload()
    expect(page.get_by_text("at ζ = 0.50").first).to_be_visible()

    expect(page.locator("#figure-zeta .main-svg").first).to_be_visible()
    for button in ("png", "svg"):
        page.locator(".figure summary", has_text="Export").first.click()
        with page.expect_download() as download:
            page.locator(f"[data-export={button}]").first.click()
        assert Path(download.value.path()).stat().st_size > 1000

    name = page.get_by_role("heading", level=1).inner_text()
    page.get_by_text("More", exact=True).click()
    page.get_by_role("button", name="Move to the trash").click()
    expect(page.get_by_role("link", name=name, exact=True)).to_have_count(0)
    page.get_by_role("link", name="trash", exact=True).click()
    page.get_by_role("button", name="Delete all permanently").click()
    page.get_by_role("button", name="Delete permanently").click()
    expect(page.get_by_text("The trash is empty")).to_be_visible()


def parse_means(latex: str) -> dict[float, tuple[float, int]]:
    lines = re.findall(r"^ +(?:.* & )?(\S+) & \$(?:\\mathbf\{)?([-.\d]+)", latex, re.MULTILINE)
    return {float(lam.replace("$-$", "-")): (float(mean), len(mean.partition(".")[2])) for lam, mean in lines}


def test_sweep_leads_from_form_to_scatter_and_latex(dashboard, page, rows):
    page.goto(f"{dashboard.url}/datasets")
    page.get_by_label("Train file").set_input_files(rows[0])
    page.get_by_label("Validation file").set_input_files(rows[1])
    page.get_by_label("Name", exact=True).fill("Films")
    page.get_by_role("button", name="Upload", exact=True).click()
    page.get_by_role("button", name="Launch a sweep").click()

    page.get_by_label("Model", exact=True).fill("tiny-bert")
    page.get_by_label("λ values", exact=True).fill("-1, 0, 1")
    page.get_by_label("Seeds", exact=True).fill("0, 1")
    page.get_by_label("Max steps", exact=True).fill("4")
    expect(page.locator("#plan strong").first).to_have_text("6 runs")
    page.get_by_role("button", name="Launch", exact=True).click()

    expect(page.get_by_role("link", name="Training", exact=True)).to_have_attribute("aria-current", "page")
    expect(page.get_by_text("6 of 6 runs finished")).to_be_visible(timeout=240_000)
    page.get_by_role("link", name="Result", exact=True).click()
    expect(page.locator("#figure-isotropy .js-plotly-plot")).to_be_visible()
    link = page.locator("#figure-isotropy a[download$='.csv']").evaluate("link => link.href")
    points = csv.DictReader(io.StringIO(page.request.get(link).text()))
    assert [float(row["lambda"]) for row in points] == [-1, 0, 1]
    page.get_by_role("combobox", name="X axis").select_option("lam")
    expect(page.locator("#figure-lambda .js-plotly-plot")).to_be_visible()

    page.get_by_role("link", name="Export", exact=True).click()
    table = page.locator("#means")
    table.locator("summary", has_text="LaTeX").click()
    latex = table.get_by_role("region", name="The table in LaTeX").inner_text()
    assert latex.rstrip().endswith("\\end{table}")
    runs = dashboard.get(f"/api/experiments/{page.url.rpartition('/')[2].partition('?')[0]}")["runs"]
    printed = parse_means(latex)
    assert printed.keys() == {-1, 0, 1}
    for lam, (mean, decimals) in printed.items():
        exact = fmean(run["performance"] for run in runs if run["lam"] == lam)
        assert mean == pytest.approx(exact, abs=0.5001 * 10**-decimals)
    with page.expect_download() as download:
        table.get_by_role("link", name="Download LaTeX").click()
    assert Path(download.value.path()).read_text().strip() == latex.strip()

    page.get_by_role("link", name="Runs", exact=True).click()
    follow(page.locator("#found-runs tbody a[href^='/runs/']").first)
    expect(page.get_by_role("heading", level=1)).to_contain_text("seed 0")
    expect(page.locator(".js-plotly-plot")).to_have_count(page.locator("[data-figure]").count())


def test_invalid_form_keeps_values_and_links_to_error(filled, page):
    page.goto(f"{filled.url}/experiments/new?dataset_id={filled.dataset}")
    page.get_by_label("λ values", exact=True).fill("abc")
    expect(page.locator("#plan")).to_contain_text("Enter a number, not 'abc'.")
    page.get_by_role("button", name="Launch").click()
    field = page.get_by_label("λ values", exact=True)
    expect(field).to_have_value("abc")
    expect(field).to_have_attribute("aria-invalid", "true")
    summary = page.get_by_role("alert")
    expect(summary).to_be_focused()
    summary.get_by_role("link", name="λ values").click()
    expect(field).to_be_focused()


def test_form_shows_options_of_choices_and_counts_grid(filled, page):
    page.goto(f"{filled.url}/experiments/new?dataset_id={filled.dataset}")
    page.get_by_role("checkbox", name="Persistent entropy").check()
    # This fold arrives with a response: until then, a click may hit a moving page.
    page.get_by_text("Barcode: Entropy bars: prominent").click()
    page.get_by_text("Grid: none").click()
    page.get_by_label("Entropy bars", exact=True).select_option("all")
    page.get_by_label("Option", exact=True).last.select_option("batch_size")
    expect(page.get_by_label("Option", exact=True)).to_have_count(2)
    page.get_by_label("Values, by commas").first.fill("8, 16")
    expect(page.locator("#plan strong")).to_have_text("54 runs")
    page.get_by_label("Option", exact=True).last.select_option("learning_rate")
    expect(page.get_by_label("Option", exact=True)).to_have_count(3)
    assert page.get_by_label("Option", exact=True).nth(0).input_value() == "batch_size"
    page.reload()
    expect(page.get_by_label("Entropy bars", exact=True)).to_have_value("all")
    expect(page.get_by_label("Values, by commas").first).to_have_value("8, 16")


def test_plot_fills_its_box_after_each_choice(filled, page):
    page.goto(f"{filled.url}/experiments/{filled.finished}")
    fitting = """boxes => boxes.every(box => {
      const plot = box.querySelector('.main-svg');
      return plot && Math.abs(plot.getBoundingClientRect().width - box.getBoundingClientRect().width) < 2;
    })"""
    for x, plots in (("isoscore_star", 1), ("", 2), ("lam", 1)):
        page.locator("select[name=x]").select_option(x)
        boxes = page.locator(".scatters [data-figure]")
        expect(boxes).to_have_count(plots)
        wait_for(lambda: page.evaluate(f"() => ({fitting})([...document.querySelectorAll('.scatters [data-figure]')])"))


@pytest.mark.skipif(not WORD2VEC.is_file(), reason="ISOSCOPE_BENCH_DATA names no folder with word2vec")
@pytest.mark.long
def test_word2vec_upload_matches_reference_values(dashboard, page):
    page.goto(f"{dashboard.url}/embeddings")
    page.get_by_label("A file of vectors").set_input_files(WORD2VEC)
    page.get_by_role("button", name="Upload and preview").click()
    page.get_by_role("button", name="Measure these embeddings").click()
    expect(page.get_by_role("navigation", name="Parts of this page")).to_be_visible()
    expect(page.get_by_text("8,000").first).to_be_visible()
    report = dashboard.get(f"/api{urlsplit(page.url).path}")
    measured = {measurement["measure"]: measurement["value"] for measurement in report["measurements"]}
    assert measured["isoscore"] == pytest.approx(0.609295545, abs=1e-6)
    assert measured["mean_cosine"] == pytest.approx(0.0640, abs=1e-4)


@pytest.mark.long
def test_report_menu_and_tabs_fit_phone_width(dashboard, measured, page):
    page.set_viewport_size({"width": 390, "height": 800})
    page.goto(f"{dashboard.url}/embeddings/{measured['embedding']}")
    page.get_by_text("More", exact=True).click()
    opened = page.locator(".head .menu > div").bounding_box()
    assert opened is not None
    assert 0 <= opened["x"] <= opened["x"] + opened["width"] <= 390
    page.get_by_role("heading", level=1).click()
    expect(page.locator(".head .menu > div")).to_be_hidden()
    for part in ("Map & neighbors", "Task", "Details"):
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        follow(page.get_by_role("link", name=part, exact=True))
        tabs = page.get_by_role("navigation", name="Parts of this page")
        expect(tabs.locator("[aria-current]")).to_be_in_viewport(ratio=0.9)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.get_by_role("heading", name="All measures").click()
    tables = page.locator("#all-measures > .table")
    assert tables.count() > 1
    assert tables.evaluate_all("boxes => boxes.every(box => box.scrollWidth <= box.clientWidth)")


def test_theme_choice_is_kept(filled, page):
    page.goto(filled.url)
    page.get_by_label("Theme").select_option("dark")
    dark = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    page.reload()
    assert page.evaluate("getComputedStyle(document.documentElement).backgroundColor") == dark
    page.get_by_label("Theme").select_option("light")
    wait_for(lambda: page.evaluate("dark => getComputedStyle(document.documentElement).backgroundColor !== dark", dark))
