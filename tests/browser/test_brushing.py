"""Parallel coordinates by hand: drag along an axis, and the table of runs shows what passes there."""

import pytest
from playwright.sync_api import Locator, Page, expect
from sqlalchemy import create_engine
from sqlalchemy.orm import Session

from app.db.config import RunConfig, TrainingConfig
from app.db.models import Dataset, DatasetOrigin, Experiment, Run, RunStatus
from app.db.penalty import Regularizer

OPTIONS = {"model": "tiny-bert", "text_columns": ["sentence"], "label_column": "label", "label_names": ["0", "1"]}
LAMBDAS = (-1.0, 0.0, 1.0)


def finished_run(position: int, lam: float, seed: int) -> Run:
    regularizer = Regularizer.ISTAR if lam else Regularizer.NONE
    config = RunConfig(**OPTIONS, regularizer=regularizer, lam=lam, seed=seed)
    return Run(
        position=position,
        config=config.model_dump(mode="json"),
        regularizer=regularizer,
        lam=lam,
        zeta=config.zeta,
        seed=seed,
        status=RunStatus.FINISHED,
        performance=0.5 + 0.1 * seed,
        isoscore_star=0.3 + 0.1 * lam + 0.01 * seed,
    )


@pytest.fixture
def experiment(serving_module) -> str:
    """The address of an experiment of three λ and two seeds, which have finished."""
    runs = [finished_run(2 * place + seed, lam, seed) for place, lam in enumerate(LAMBDAS) for seed in (0, 1)]
    written = Experiment(
        name="brushed",
        dataset=Dataset(name="Tiny", origin=DatasetOrigin.UPLOAD, columns=[]),
        config=TrainingConfig(**OPTIONS).model_dump(mode="json"),
        runs=runs,
    )
    engine = create_engine(f"sqlite:///{serving_module.data_dir / 'isoscope.sqlite'}")
    with Session(engine) as session, session.begin():
        session.add(written)
        session.flush()
        address = f"{serving_module.url}/experiments/{written.id}"
    engine.dispose()
    return address


def drag(page: Page, axis: Locator, start: float, end: float) -> None:
    """Along an axis, from one part of its height to another, counted from the top."""
    box = axis.bounding_box()
    assert box is not None
    x = box["x"] + box["width"] / 2
    page.mouse.move(x, box["y"] + start * box["height"])
    page.mouse.down()
    page.mouse.move(x, box["y"] + end * box["height"], steps=8)
    page.mouse.up()


def test_a_brush_writes_the_search_and_the_table_follows(experiment, page):
    page.goto(experiment)
    page.get_by_role("heading", name="Runs by all that varies").scroll_into_view_if_needed()
    axes = page.locator("#figure-parallel .axis-brush")
    expect(axes).to_have_count(4)
    page.locator("#figure-parallel").scroll_into_view_if_needed()
    search, rows = page.get_by_label("Search runs"), page.locator("#found-runs tbody tr")
    expect(rows).to_have_count(6)

    drag(page, axes.nth(0), 0.3, 0.95)
    expect(search).to_have_value("lam>=-1 lam<=0")
    expect(rows).to_have_count(4)

    drag(page, axes.nth(1), 0.7, 0.95)
    expect(search).to_have_value("lam>=-1 lam<=0 seed:0")
    expect(rows).to_have_count(2)

    search.fill(f"status:finished {search.input_value()}")
    axes.nth(0).click(position={"x": 5, "y": 8})
    expect(search).to_have_value("status:finished seed:0")
    expect(rows).to_have_count(3)


def test_a_brush_cuts_what_it_wrote_itself_and_nothing_like_it_that_was_typed(experiment, page):
    page.goto(experiment)
    page.get_by_role("heading", name="Runs by all that varies").scroll_into_view_if_needed()
    axes = page.locator("#figure-parallel .axis-brush")
    expect(axes).to_have_count(4)
    page.locator("#figure-parallel").scroll_into_view_if_needed()
    search = page.get_by_label("Search runs")
    search.fill("seed:0,1")
    drag(page, axes.nth(1), 0.7, 0.95)
    expect(search).to_have_value("seed:0,1 seed:0")
    axes.nth(1).click(position={"x": 5, "y": 8})
    expect(search).to_have_value("seed:0,1")


def test_the_same_search_is_typed_with_a_keyboard(experiment, page):
    page.goto(experiment)
    page.get_by_label("Search runs").focus()
    page.keyboard.type("lam<=0 isoscore_star>0.25")
    expect(page.locator("#found-runs tbody tr")).to_have_count(2)
