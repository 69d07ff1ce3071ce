import io
import re
from pathlib import Path
from urllib.parse import parse_qs

import httpx2
import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import is_complaint
from tests.page_actions import draw_all
from tests.waiting import wait_for

HOSTILE = "</script><script>alert(1)</script>"
N = 300
GROUP = range(40, 80)
LONE_ROW = 7
# The pixel of a point of the first trace, relative to the page.
PIXEL = """(plot, row) => {
  const { xaxis, yaxis } = plot._fullLayout, box = plot.getBoundingClientRect(), [{ x, y }] = plot.data;
  return [box.left + xaxis._offset + xaxis.l2p(x[row]), box.top + yaxis._offset + yaxis.l2p(y[row])];
}"""
TITLE_WIDTH = """([text, family]) => {
  const pen = document.createElement("canvas").getContext("2d");
  pen.font = `600 16px ${family}`;
  return pen.measureText(text).width;
}"""
FALLBACK_FACE = "monospace"
TITLE = {"x": 8, "height": 36, "scale": 3}


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


@pytest.fixture(scope="module")
def measured_map(dashboard) -> str:
    """The URL of a measured embedding with a group of rows to one side, and one row far from all others."""
    x = np.random.default_rng(0).normal(size=(N, 4))
    x[GROUP, 0] += 40
    x[LONE_ROW, 1] += 60
    weights = ["" if i == 1 else str(i / 8) for i in range(N)]
    sides = ["left" if i in GROUP else "right" for i in range(N)]
    vectors = (",".join(f"{value:.4f}" for value in row) for row in x)
    lines = [f"word {i},{','.join(row)}" for i, row in enumerate(zip(weights, sides, vectors, strict=True))]
    file = "\n".join(["name,weight,side,a,b,c,d", *lines])
    embedding_id = dashboard.post("/api/embeddings", files={"file": ("planted.csv", file)})["id"]
    address = f"/api/embeddings/{embedding_id}"
    dashboard.wait_for(lambda: dashboard.get(address)["status"] == "draft", "a draft")
    selection = {"vectors": ["a", "b", "c", "d"], "names": "name"}
    httpx2.put(f"{dashboard.url}{address}/selection?commit=auto", json=selection, timeout=60).raise_for_status()
    dashboard.wait_for(lambda: dashboard.get(address)["status"] == "ready", "a measured embedding")
    return f"{dashboard.url}/embeddings/{embedding_id}"


def open_map(page: Page, measured_map: str, query: str = "") -> Locator:
    page.goto(f"{measured_map}?tab=map{query}")
    plot = page.locator("#map-plot .js-plotly-plot")
    expect(plot.locator(".gl-canvas").first).to_be_attached()
    plot.scroll_into_view_if_needed()
    return plot


@pytest.mark.long
def test_lasso_selects_rows_and_measures_them(page, measured_map):
    plot = open_map(page, measured_map)
    page.get_by_role("button", name="Lasso").click()
    corners = np.array([plot.evaluate(PIXEL, row) for row in GROUP])
    (left, top), (right, bottom) = corners.min(axis=0) - 6, corners.max(axis=0) + 6
    page.mouse.move(left, top)
    page.mouse.down()
    for corner in ((right, top), (right, bottom), (left, bottom), (left, top)):
        page.mouse.move(*corner, steps=5)
    page.mouse.up()
    expect(page.locator("[data-map-selected]")).to_contain_text("40 rows selected: word 40, word 41")
    expect(page.get_by_label("Selected rows")).to_have_value("40-79")
    with page.expect_request(lambda request: request.method == "POST") as posted:
        page.get_by_role("button", name="Measure the selection").click()
    assert parse_qs(posted.value.post_data)["rows"] == ["40-79"]
    expect(page.get_by_role("heading", level=1)).to_contain_text(re.compile("40 rows of planted"))


def test_rows_are_clicked_found_selected_and_colored(page, measured_map):
    plot = open_map(page, measured_map)
    at = plot.evaluate(PIXEL, LONE_ROW)
    page.mouse.move(*at)
    expect(plot.locator(".hoverlayer")).to_contain_text(f"word {LONE_ROW}")
    page.mouse.click(*at)
    expect(page.locator("#map-row h3")).to_have_text(f"Row {LONE_ROW} · word {LONE_ROW}")
    expect(page.locator("#map-row tbody tr")).to_have_count(10)
    assert parse_qs(page.url.partition("?")[2]) == {"tab": ["map"], "row": [str(LONE_ROW)]}
    expect(page.locator("#map-row")).to_be_in_viewport()
    expect(plot).to_be_in_viewport()
    plot = open_map(page, measured_map, f"&row={LONE_ROW}")
    wait_for(lambda: plot.evaluate("plot => plot.data.at(-1).name") == "rings")
    assert plot.evaluate("plot => plot.data.at(-1).x.length") == 11
    page.locator("#map-row tbody a").first.click()
    expect(page.locator("#map-row h3")).not_to_contain_text(f"Row {LONE_ROW} ")

    page.get_by_role("textbox", name="Find a row").fill("word 55")
    page.get_by_role("button", name="Find", exact=True).click()
    expect(page.locator("#map-row h3")).to_have_text("Row 55 · word 55")
    page.get_by_label("Selected rows").fill(f"0-2 {N - 1}-99999999999")
    page.get_by_label("Selected rows").press("Tab")
    wait_for(lambda: plot.evaluate("plot => plot.data[0].selectedpoints") == [0, 1, 2, N - 1])

    page.get_by_label("Color by").select_option("weight")
    expect(plot.locator(".legend")).to_contain_text("no value (1)")
    page.get_by_label("Color by").select_option("side")
    expect(plot.locator(".legend")).to_contain_text("left (40)")
    assert plot.evaluate("plot => plot.data.map(({ name }) => name)")[:2] == ["right (260)", "left (40)"]
    assert parse_qs(page.url.partition("?")[2])["color"] == ["column-1"]


@pytest.fixture
def laid_out_map(dashboard, measured_map) -> str:
    address = f"/api/embeddings/{measured_map.rpartition('/')[2]}/figure-data/map"
    dashboard.wait_for(lambda: dashboard.get(address).get("layout"), "a neighbor layout")
    return measured_map


def test_layout_is_switched_by_keyboard_and_keeps_selection_and_search(page, laid_out_map):
    plot = open_map(page, laid_out_map)
    components = plot.evaluate("plot => plot.data[0].x[0]")
    expect(page.locator("#map-caption")).to_contain_text("principal components")
    page.get_by_label("Selected rows").fill("40-79")
    page.get_by_label("Selected rows").press("Tab")
    page.get_by_role("combobox", name="Layout").focus()
    page.keyboard.press("ArrowDown")
    expect(page.locator("#map-caption")).to_contain_text("Distances between clusters mean nothing.")
    wait_for(lambda: plot.evaluate("plot => plot.data[0].x[0]") != components)
    wait_for(lambda: plot.evaluate("plot => plot.data[0].selectedpoints") == [*GROUP])
    expect(page.get_by_label("Selected rows")).to_have_value("40-79")
    page.get_by_label("Selected rows").fill("")
    page.get_by_label("Selected rows").press("Tab")
    page.mouse.click(*plot.evaluate(PIXEL, LONE_ROW))
    expect(page.locator("#map-row h3")).to_have_text(f"Row {LONE_ROW} · word {LONE_ROW}")
    wait_for(lambda: plot.evaluate("plot => plot.data.at(-1).x.length") == 11)
    assert parse_qs(page.url.partition("?")[2])["layout"] == ["neighbors"]
    page.get_by_label("Color by").select_option("side")
    expect(plot.locator(".legend")).to_contain_text("left (40)")
    assert plot.evaluate("plot => plot.data[0].x[0]") != components


def test_map_without_javascript_has_one_layout(open_page, laid_out_map):
    plain = open_page(java_script_enabled=False)
    plain.goto(f"{laid_out_map}?tab=map")
    expect(plain.get_by_role("combobox", name="Color by")).to_be_visible()
    expect(plain.get_by_role("combobox", name="Layout")).to_be_hidden()
    expect(plain.locator("#map-caption")).to_contain_text("principal components")


def test_click_on_overview_opens_row_on_map(page, measured_map):
    page.goto(measured_map)
    plot = page.locator("#map-plot .js-plotly-plot")
    expect(plot.locator(".gl-canvas").first).to_be_attached()
    page.mouse.click(*plot.evaluate(PIXEL, LONE_ROW))
    expect(page.locator("#map-row h3")).to_have_text(f"Row {LONE_ROW} · word {LONE_ROW}")
    expect(page.locator(".tabs [aria-current]")).to_have_text("Map & neighbors")


def test_without_webgl_rows_are_drawn_as_shapes(page, measured_map):
    page.add_init_script("HTMLCanvasElement.prototype.getContext = () => null")
    page.goto(f"{measured_map}?tab=map")
    expect(page.locator("#map-plot .scatterlayer .point")).to_have_count(N)


def test_missing_map_and_figures_show_an_error(page, measured_map):
    page.route(re.compile(r"/plot\.json|/figures/"), lambda route: route.abort("connectionreset"))
    page.goto(f"{measured_map}?tab=details")
    missing = "This figure could not be drawn. The server did not answer. Reload the page to try again."
    expect(page.locator(".plot[data-figure]").first).to_have_text(missing)
    page.goto(measured_map)
    expect(page.locator("#map-plot")).to_have_text(missing)


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


@pytest.mark.long
def test_lab_works_without_javascript(lab, open_page):
    page = open_page(java_script_enabled=False)
    page.goto(f"{lab}?method=soft_zca")
    expect(page.get_by_label("ε, slider")).to_be_hidden()
    page.get_by_label("ε", exact=True).fill("0.5")
    page.get_by_role("button", name="Try it").first.click()
    expect(page).to_have_url(re.compile("method=soft_zca&eps=0.5$"))
    wait_for(lambda: page.reload() and page.get_by_role("button", name="Keep as an embedding").count(), 60)


@pytest.mark.long
def test_embeddings_are_compared_trashed_and_restored(lab, measured, page):
    page.goto(lab.partition("/embeddings/")[0] + "/embeddings")
    for box in page.get_by_role("checkbox", name=re.compile("^Select ")).all()[:2]:
        box.check()
    page.get_by_role("button", name="Compare", exact=True).click()
    expect(page).to_have_url(re.compile(r"/compare\?id=\w+&id="))
    page.goto(lab.removesuffix("/lab"))
    page.get_by_text("More", exact=True).click()
    page.get_by_role("button", name="Move to the trash").click()
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("cloud.csv")


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


def test_figure_prints_alone_at_paper_width(filled, page):
    widths = {"column": 3.25 * 72, "page": 6.75 * 72}
    page.goto(f"{filled.url}/experiments/{filled.finished}?x=lam")
    draw_all(page)
    caption = page.locator("#figure-lambda figcaption").text_content()
    for size, points in widths.items():
        page.evaluate("window.printed = ''; window.print = () => { window.printed = document.title; }")
        page.locator("#figure-lambda summary", has_text="Export").click()
        page.locator(f"#figure-lambda [data-export=pdf][data-sheet={size}]").click()
        wait_for(lambda: page.evaluate("() => window.printed"), 60)
        assert page.evaluate("window.printed") == "All-finished-lambda"
        sheet = page.locator("figure.sheet")
        assert " ".join(sheet.locator("figcaption").text_content().split()) == " ".join(caption.split())
        pdf = page.pdf(prefer_css_page_size=True)
        (width,) = re.findall(rb"/MediaBox \[0 0 ([\d.]+) [\d.]+\]", pdf)
        assert float(width) == pytest.approx(points, abs=1)
        assert pdf.count(b"/Type /Page\n") == 1, "only the figure is printed"
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        expect(sheet).to_have_count(0)
        expect(page).to_have_title(re.compile("All finished"))


def test_exported_images_use_page_font(filled, page, tmp_path):
    page.goto(f"{filled.url}/experiments/{filled.finished}?x=lam")
    face = page.evaluate("getComputedStyle(document.body).fontFamily").partition(", ")[0]
    assert face == '"Inter Variable"'
    # The system's sans-serif may be as wide as Inter; monospace is not.
    page.evaluate("faces => { document.body.style.fontFamily = faces }", f"{face}, {FALLBACK_FACE}")
    draw_all(page)
    for kind in ("png", "svg"):
        page.locator("#figure-lambda summary", has_text="Export").click()
        with page.expect_download() as download:
            page.locator(f"#figure-lambda [data-export={kind}]").click()
        download.value.save_as(tmp_path / f"picture.{kind}")
    svg = (tmp_path / "picture.svg").read_text()
    assert svg.count('src: url("data:font/woff2;base64,') == 2, "Latin and Greek letters, for programs without Inter"

    title = page.locator("#figure-lambda h3").text_content()
    inter, fallback = (page.evaluate(TITLE_WIDTH, [title, family]) for family in (face, FALLBACK_FACE))
    assert abs(inter - fallback) > 5
    ink = np.asarray(Image.open(tmp_path / "picture.png").convert("L"))[: TITLE["height"] * TITLE["scale"]] < 200
    assert np.flatnonzero(ink.any(axis=0)).max() / TITLE["scale"] == pytest.approx(TITLE["x"] + inter, abs=2)
