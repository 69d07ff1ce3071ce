import csv
import io
import re
from pathlib import Path
from statistics import fmean

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from app.db.models import Experiment, RunStatus
from tests.dashboards import ROWS, empty_dashboard
from tests.factories import add_experiment, run_row
from tests.page_actions import draw_all, follow
from tests.tiny import make_table
from tests.waiting import patience, wait_for

STUB = """
  window.shown = [];
  window.Notification = class { constructor(title, more) { window.shown.push([title, more.body]); } };
  window.Notification.requestPermission = async () => "granted";
"""


def test_embedding_is_uploaded_measured_and_searched(dashboard, page, tmp_path, cloud):
    np.savez(path := tmp_path / "cloud.npz", vectors=cloud, words=[f"word{i}" for i in range(len(cloud))])
    page.goto(f"{dashboard.url}/embeddings")
    page.get_by_label("A file of vectors").set_input_files(path)
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

    link = page.get_by_role("link", name=page.get_by_role("heading", level=1).inner_text(), exact=True)
    page.goto(f"{dashboard.url}/embeddings")
    page.get_by_label("Search").press_sequentially("no such vectors")
    expect(link).to_have_count(0)
    page.get_by_label("Search").fill("")
    expect(link.first).to_be_visible()


def parse_means(latex: str) -> dict[float, tuple[float, int]]:
    lines = re.findall(r"^ +(?:.* & )?(\S+) & \$(?:\\mathbf\{)?([-.\d]+)", latex, re.MULTILINE)
    return {float(lam.replace("$-$", "-")): (float(mean), len(mean.partition(".")[2])) for lam, mean in lines}


def test_sweep_leads_from_form_to_scatter_and_latex(dashboard, page, tmp_path):
    (rows := tmp_path / "rows.tsv").write_text(ROWS)
    page.goto(f"{dashboard.url}/datasets")
    page.get_by_label("Train file").set_input_files(rows)
    page.get_by_label("Validation file").set_input_files(rows)
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
    expect(page.get_by_text("6 of 6 runs finished")).to_be_visible(timeout=240_000 * patience())
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


@pytest.mark.long
def test_texts_are_encoded_and_read_by_layer(dashboard, page, tmp_path):
    (texts := tmp_path / "reviews.tsv").write_bytes(make_table(40, 1))
    page.goto(f"{dashboard.url}/embeddings")
    page.get_by_role("link", name="Encodings").click()
    page.get_by_label("A file of texts").set_input_files(texts)
    page.get_by_role("button", name="Upload and choose a model").click()

    expect(page.get_by_label("Text columns", exact=True)).to_have_value("sentence")
    expect(page.locator("#plan strong")).to_have_text("7 embeddings")
    page.get_by_label("Model", exact=True).fill("tiny-gpt2")
    page.get_by_label("last token").check()
    expect(page.locator("#plan strong")).to_have_text("6 embeddings")
    page.get_by_role("button", name="Encode").click()

    expect(page.get_by_role("button", name="Compare layers")).to_be_visible(timeout=240_000 * patience())
    expect(page.get_by_text("encoded, measuring")).to_be_hidden(timeout=240_000 * patience())
    expect(page.locator("#figure-heat-map .js-plotly-plot")).to_be_visible()
    expect(page.locator("#figure-by-layer .js-plotly-plot")).to_be_visible()
    page.get_by_label("Measure by layer").select_option("Uniformity")
    expect(page).to_have_url(re.compile("by=uniformity"))
    expect(page.get_by_role("heading", name="Uniformity by layer")).to_be_visible()

    page.get_by_role("link", name="last token", exact=True).click()
    expect(page).to_have_url(re.compile("pooling=last"))
    row = page.get_by_role("region", name="Measures by layer").get_by_role("row", name="Layer 1")
    row.get_by_role("cell").nth(0).get_by_role("link").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("reviews · tiny-gpt2 · layer 1, last")
    expect(page.get_by_text("Layer 1 of 2, last token")).to_be_visible()
    page.get_by_role("link", name="next layer").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("reviews · tiny-gpt2 · layer 2, last")
    page.get_by_role("navigation", name="Layers of reviews").get_by_role("link", name="reviews").click()
    expect(page).to_have_url(re.compile("/encodings/.*pooling=last"))


@pytest.mark.long
def test_experiment_end_notifies_once(tmp_path, empty_databases, page):
    page.add_init_script(STUB)
    with empty_dashboard(tmp_path / "notify", empty_databases) as (address, context):
        sweep = add_experiment(context, run_row(), run_row(seed=1, status=RunStatus.QUEUED), name="My sweep")
        page.goto(f"{address}/experiments/{sweep}")
        page.get_by_role("button", name="Notify me when it ends").click()
        expect(page.get_by_role("button", name="Notification on. Keep this page open.")).to_be_visible()
        assert page.evaluate("window.shown") == []
        with context.sessions.begin() as session:
            session.get(Experiment, sweep).runs[1].status = RunStatus.FINISHED
        expect(page.locator("[data-notify]")).to_have_count(0)
        assert page.evaluate("window.shown") == [["My sweep has ended", "2 runs finished"]]
        page.reload()
        expect(page.get_by_role("heading", name="My sweep")).to_be_visible()
        assert page.evaluate("window.shown") == []


def read_figures(page: Page) -> dict[str, str]:
    draw_all(page)
    return page.evaluate(
        """() => Object.fromEntries([...document.querySelectorAll("figure:has([data-figure])")].map((figure) =>
             [figure.id, JSON.stringify(figure.querySelector(".js-plotly-plot").data)]))"""
    )


def read_cells(page: Page, region: str) -> list[str]:
    return page.get_by_role("region", name=region, exact=True).get_by_role("cell").all_inner_texts()


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


@pytest.mark.long
def test_archive_is_downloaded_and_offered_for_import(filled, page, tmp_path):
    page.goto(f"{filled.url}/experiments/{filled.troubled}?tab=export")
    with page.expect_download() as download:
        page.get_by_role("link", name="Archive").click()
    download.value.save_as(tmp_path / "troubled.zip")
    page.goto(f"{filled.url}/experiments/import")
    page.get_by_label("Zip file of an experiment").set_input_files(tmp_path / "troubled.zip")
    page.get_by_role("button", name="Import").click()
    expect(page).to_have_url(re.compile(r"/(imports|experiments)/\w{32}$"))


@pytest.mark.long
def test_form_round_trips_through_yaml(filled, page):
    form = f"{filled.url}/experiments/new?dataset_id={filled.dataset}"
    page.goto(form)
    page.evaluate("""() => { const send = window.fetch; window.fetch = (url, options) => send(url, options).then(
        (answer) => new Promise((end) => setTimeout(end, String(url).includes("seeds=3") ? 0 : 1000, answer))); }""")
    page.get_by_role("checkbox", name="CosReg").check()
    page.get_by_label("Seeds", exact=True).fill("3, 4")
    page.get_by_text("Command line, API, Python").click()
    yaml_region = page.get_by_role("region", name="YAML")
    page.wait_for_timeout(1500)
    expect(yaml_region, "not a late answer to the earlier change").to_contain_text("seeds: [3, 4]")
    yaml = yaml_region.inner_text()
    page.goto(form)
    page.get_by_text("Fill in from a file").click()
    page.get_by_label("Or its text").fill(yaml)
    page.get_by_role("button", name="Fill in the form").click()
    expect(page.get_by_label("Seeds", exact=True)).to_have_value("3, 4")
    page.get_by_text("Command line, API, Python").click()
    expect(yaml_region).to_have_text(yaml)
