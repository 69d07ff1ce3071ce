"""Real Chromium against a running dashboard. Every console message fails the test."""

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect, sync_playwright

from app.db.models import RunStatus
from benchmarks._chromium import ARGUMENTS, CHROMIUM
from tests.dashboards import FilledDashboard, fill_dashboard
from tests.ports import free_port
from tests.serving import Serving
from tests.tiny import make_table
from tests.waiting import patience

SCREEN = {"viewport": {"width": 1280, "height": 900}, "accept_downloads": True}
# GPU compositing in software doubles the CPU time of a page, and only WebGL needs it.
QUIET = [
    "--disable-background-networking", "--no-first-run", "--disable-sync",
    "--disable-gpu-compositing", "--disable-gpu-rasterization",
]  # fmt: skip


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One browser per file: its event loop keeps other tests from running one in this thread."""
    if CHROMIUM is None:
        pytest.skip("there is no Chromium on this machine: install the package chromium to run the browser tests")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS + QUIET)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def dashboard(tmp_path_factory: pytest.TempPathFactory, models_dir: Path) -> Iterator[Serving]:
    """A dashboard with a worker and tiny models. Tests create the rows they look at."""
    data_dir = tmp_path_factory.mktemp("dashboard") / "data"
    server = Serving(data_dir, free_port(), {"ISOSCOPE_MODELS_DIR": str(models_dir)})
    yield server
    server.stop()


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory, empty_databases: list[Path]) -> Iterator[FilledDashboard]:
    """A dashboard full of experiments, without a worker: waiting runs keep waiting."""
    with fill_dashboard(tmp_path_factory.mktemp("filled") / "data", empty_databases) as filled:
        yield filled


@pytest.fixture(scope="session")
def measured(dashboard: Serving) -> dict[str, str]:
    """Ids of a measured embedding with labels, a trial, a task, warnings of its file and more findings than are shown
    at first, and of an encoding of texts with classes and two of its layers."""
    draw = np.random.default_rng(0)
    labels = draw.integers(0, 4, 1200)
    rows = (draw.normal(size=(1200, 64)) + 1.4 * draw.normal(size=(4, 64))[labels]) * np.linspace(1.0, 0.2, 64)
    rows[:, 7] = 4 * rows[:, 7] + 6
    rows[600:760], rows[:, 20], rows[5] = rows[:160], 0.0, 60 * rows[5]
    matrix, names = io.BytesIO(), [f"word {row},topic {label}" for row, label in enumerate(labels)]
    np.save(matrix, rows.astype(np.float32))
    annotations = ("words.csv", "\n".join(["word,topic", *names]).encode())
    files = {"file": ("words.npy", matrix.getvalue()), "annotations": annotations}
    embedding = dashboard.post("/api/embeddings?commit=auto", files=files)["id"]
    texts = ("reviews.tsv", make_table(80, 1))
    encoding = dashboard.post("/api/encodings", files={"file": texts})["id"]
    encoding_options = {"model": "tiny-bert", "text_columns": ["sentence"], "label_column": "label"}
    dashboard.post(f"/api/encodings/{encoding}/launch", json=encoding_options)
    dashboard.wait_for(lambda: embedding_status(dashboard, embedding) == "ready", "measurements")
    assert len(dashboard.get(f"/api/embeddings/{embedding}/findings")) > 4
    trials = f"/api/embeddings/{embedding}/postprocessings"
    trial = dashboard.post(trials, json={"method": "zca_whitening"})["id"]
    dashboard.wait_for(lambda: dashboard.get(f"{trials}/{trial}")["status"] == "ready", "a trial")
    form = {"kind": "labels", "labels": "topic"}
    task = dashboard.post(f"/api/embeddings/{embedding}/tasks", data=form)["id"]
    dashboard.wait_for(lambda: dashboard.get(f"/api/tasks/{task}")["status"] == "finished", "a task")
    dashboard.wait_for(lambda: dashboard.get(f"/api/encodings/{encoding}")["status"] == "finished", "an encoding")
    layers = [layer["embedding_id"] for layer in dashboard.get(f"/api/encodings/{encoding}/layers")]
    dashboard.wait_for(lambda: all(embedding_status(dashboard, layer) == "ready" for layer in layers), "layers")
    outer = [layers[0], layers[-1]]
    dashboard.post("/api/compare/alignments", json={"id": outer})
    pairs = urlencode([("id", layer) for layer in outer])
    dashboard.wait_for(lambda: dashboard.get(f"/api/compare/rows?{pairs}")["status"] == "ready", "an alignment")
    return {"embedding": embedding, "encoding": encoding, "first_layer": layers[0], "layer": layers[-1], "task": task}


def embedding_status(dashboard: Serving, embedding_id: str) -> str:
    return str(dashboard.get(f"/api/embeddings/{embedding_id}")["status"])


@pytest.fixture(scope="session")
def ids(filled: FilledDashboard) -> dict[str, str]:
    runs = {
        "finished_run": filled.run(filled.finished, RunStatus.FINISHED),
        "failed_run": filled.run(filled.troubled, RunStatus.FAILED),
    }
    return {name: getattr(filled, name) for name in ("dataset", "finished", "troubled")} | runs


HARMLESS = (
    # Refused requests and cut connections: the page shows these itself.
    "Failed to load resource: the server responded with a status of 4",
    "Failed to load resource: net::ERR_CONNECTION_RESET",
    # Performance hints: plotly's 3D text, and WebGL without a GPU.
    "Canvas2D: Multiple readback operations using getImageData are faster",
    "[.WebGL-",
)


def is_complaint(message: ConsoleMessage) -> bool:
    return message.type in ("error", "warning") and not message.text.startswith(HARMLESS)


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Callable[..., Page]]:
    contexts: list[BrowserContext] = []
    complaints: list[str] = []
    milliseconds = 60_000 * patience()
    expect.set_options(timeout=milliseconds)

    def open_page(**options: Any) -> Page:
        contexts.append(browser.new_context(**SCREEN | options))
        page = contexts[-1].new_page()
        page.on("console", lambda message: complaints.append(message.text) if is_complaint(message) else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.set_default_timeout(milliseconds)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []


@pytest.fixture
def page(open_page: Callable[..., Page]) -> Page:
    return open_page()
