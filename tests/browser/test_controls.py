import re

import pytest
from playwright.sync_api import Locator, Page, expect

from app.db.models import DatasetOrigin, Experiment, RunStatus
from isotropy.catalog import MEASURES
from tests.factories import add_experiment, run_row
from tests.page_actions import follow
from tests.waiting import wait_for

MAX_TABS = 200
CAMERA = "document.querySelector('#figure-cloud .js-plotly-plot')._fullLayout.scene.camera"


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


def test_run_is_paused_and_resumed_without_javascript(filled, plain):
    plain.goto(f"{filled.url}/queue")
    row = plain.get_by_role("region", name="Waiting runs").locator("tbody tr").first
    run_page = row.get_by_role("link").first.get_attribute("href")
    follow(row.get_by_role("button", name="Pause"))
    plain.goto(f"{filled.url}{run_page}")
    follow(plain.get_by_role("button", name="Resume"))
    expect(plain.get_by_role("status")).to_have_text("queued")


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


@pytest.fixture
def plain(open_page) -> Page:
    return open_page(java_script_enabled=False)


def test_pages_need_no_javascript(filled, plain):
    paths = ("/", "/embeddings", "/encodings", "/datasets", "/trash", "/compare", "/compare/runs", "/experiments",
             "/measures", "/queue", "/playground")  # fmt: skip
    for path in paths:
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


def open_playground(page: Page, url: str) -> None:
    page.goto(f"{url}/playground")
    expect(page.locator("#figure-cloud canvas").first).to_be_visible()
    expect(page.locator("#figure-shift .main-svg").first).to_be_visible()


def find_reading(page: Page, name: str):
    return page.locator(".reading", has=page.get_by_role("link", name=name, exact=True)).locator(".value")


@pytest.mark.long
def test_sliders_update_numbers_url_and_cloud(filled, page):
    open_playground(page, filled.url)
    before = page.evaluate(CAMERA)
    box = page.locator("#figure-cloud .plot").bounding_box()
    assert box
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 80, y + 20, steps=5)
    page.mouse.up()
    wait_for(lambda: page.evaluate(f"before => {CAMERA}.eye.x !== before.eye.x", before), 60)
    turned = page.evaluate(CAMERA)
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
def test_keys_move_playground_and_keep_focus(filled, page):
    open_playground(page, filled.url)
    page.get_by_role("link", name="Too few points").focus()
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowDown")
    expect(page).to_have_url(re.compile("shape=cone"))
    expect(page.get_by_label("Shape")).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    expect(page).to_have_url(re.compile("shift=1"))
    expect(page.get_by_role("slider", name="Shift")).to_be_focused()


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


@pytest.fixture
def experiment(filled) -> str:
    runs = [
        run_row(lam, seed, performance=0.5 + 0.1 * seed, isoscore_star=0.3 + 0.1 * lam + 0.01 * seed)
        for lam in (-1.0, 0.0, 1.0)
        for seed in (0, 1)
    ]
    row = add_experiment(filled.context, *runs, name="brushed")
    with filled.context.sessions.begin() as session:
        session.get_one(Experiment, row).dataset.origin = DatasetOrigin.BY_NAME
    return f"{filled.url}/experiments/{row}?tab=runs"


def drag(page: Page, axis: Locator, start: float, end: float) -> None:
    box = axis.bounding_box()
    assert box is not None
    x = box["x"] + box["width"] / 2
    page.mouse.move(x, box["y"] + start * box["height"])
    page.mouse.down()
    page.mouse.move(x, box["y"] + end * box["height"], steps=8)
    page.mouse.up()


def open_axes(page: Page, experiment: str) -> Locator:
    page.goto(experiment)
    page.get_by_role("heading", name="Runs by setting").scroll_into_view_if_needed()
    axes = page.locator("#figure-parallel .axis-brush")
    expect(axes).to_have_count(4)
    page.locator("#figure-parallel").scroll_into_view_if_needed()
    return axes


@pytest.mark.long
def test_brush_fills_search_and_filters_table(experiment, page):
    axes = open_axes(page, experiment)
    search, rows = page.get_by_label("Search runs"), page.locator("#found-runs tbody tr")
    expect(rows).to_have_count(6)

    drag(page, axes.nth(0), 0.3, 0.95)
    expect(search).to_have_value("lam>=-1 lam<=0")
    expect(rows).to_have_count(4)

    drag(page, axes.nth(1), 0.7, 0.95)
    expect(search).to_have_value("lam>=-1 lam<=0 seed:0")
    expect(rows).to_have_count(2)

    expect(page).to_have_title("brushed · Isoscope")  # fetching figure and rows keeps the title

    search.fill(f"status:finished {search.input_value()}")
    axes.nth(0).click(position={"x": 5, "y": 8})
    expect(search).to_have_value("status:finished seed:0")
    expect(rows).to_have_count(3)


@pytest.mark.long
def test_clearing_brush_keeps_typed_search(experiment, page):
    axes = open_axes(page, experiment)
    search = page.get_by_label("Search runs")
    search.fill("seed:0,1")
    drag(page, axes.nth(1), 0.7, 0.95)
    expect(search).to_have_value("seed:0,1 seed:0")
    axes.nth(1).click(position={"x": 5, "y": 8})
    expect(search).to_have_value("seed:0,1")


def test_typed_search_filters_table(experiment, page):
    page.goto(experiment)
    page.get_by_label("Search runs").focus()
    page.keyboard.type("lam<=0 isoscore_star>0.25")
    expect(page.locator("#found-runs tbody tr")).to_have_count(2)
