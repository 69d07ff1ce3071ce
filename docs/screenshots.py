"""Take the pictures of the documents from a dashboard that follows docs/tutorial.md. It really trains.

Run: python -m docs.screenshots FOLDER [NAME ...] [--url URL]

Names select pictures. Those of embeddings need no training.
"""

import argparse
import csv
import io
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode

import numpy as np
from PIL import Image
from playwright.sync_api import Page, expect, sync_playwright

from benchmarks._chromium import ARGUMENTS, CHROMIUM
from isoscope.client import Isoscope
from tests.ports import free_port
from tests.serving import Serving

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs/images"
SAMPLE = ROOT / "samples/agreement"
DATASET = "Agreement"
FORM = {"label_column": "subject", "epochs": "", "max_steps": "36"}
FORM |= {"learning_rate": "1.5e-4", "warmup": "0.1", "max_length": "32", "validation_rows": "300", "probe_every": "18"}
FORM |= {"shrinkage_points": "12000", "name": "I-STAR on agreement"}
BOTH = '"on agreement"'
SECOND = ROOT / "docs/cosreg.yaml"
WIDTH = 1180
COLORS = 96
PATIENCE_MILLISECONDS = 120_000
PATIENCE_SECONDS = 3 * 3600
OF_EMBEDDINGS = ("upload", "report")
OF_SWEEPS = ("watching", "experiment", "means", "across")


class Tour:
    """A browser that walks through a dashboard and takes a picture now and then."""

    def __init__(self, page: Page, url: str, names: Collection[str]) -> None:
        self.page = page
        self.names = names
        self.url = url
        self.client = Isoscope(url)

    def open(self, path: str) -> None:
        """Go to a page."""
        self.page.goto(self.url + path)

    def picture(self, name: str, height: int, top: str | None = None) -> None:
        """Save ``height`` pixels as docs/images/NAME.png, from the selector ``top`` on, if the name is selected."""
        if name not in self.names:
            return
        self.page.set_viewport_size({"width": WIDTH, "height": height})
        scroll = "(element) => window.scrollTo(0, element.getBoundingClientRect().top + scrollY - 16)"
        if top:
            self.page.locator(top).evaluate(scroll)
        for plot in self.page.locator(".plot[data-figure]:visible").all():
            if (box := plot.bounding_box()) and 0 <= box["y"] < height:
                expect(plot.locator(".main-svg").first).to_be_visible()
        self.page.wait_for_timeout(500)
        shot = Image.open(io.BytesIO(self.page.screenshot(animations="disabled"))).convert("RGB")
        shot.quantize(COLORS, dither=Image.Dither.NONE).save(IMAGES / f"{name}.png", optimize=True)
        print(f"{name}.png  {(IMAGES / f'{name}.png').stat().st_size // 1000} kB", flush=True)


def write_vectors(folder: Path) -> tuple[Path, Path]:
    """Write four groups of invented words in 64 dimensions, one too large, and a label for each."""
    draw = np.random.default_rng(0)
    topics = ("animals", "colors", "places", "tools")
    scale = np.linspace(1.0, 0.2, 64)
    labels = draw.integers(0, len(topics), 1200)
    vectors = (draw.normal(size=(1200, 64)) + 1.4 * draw.normal(size=(len(topics), 64))[labels]) * scale
    vectors[:, 7] = 4 * vectors[:, 7] + 6
    np.save(folder / "words.npy", vectors.astype(np.float32))
    with (folder / "words.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["word", "topic"])
        rows.writerows([f"{topics[label]} {row}", topics[label]] for row, label in enumerate(labels))
    return folder / "words.npy", folder / "words.csv"


def show_embeddings(tour: Tour, folder: Path) -> None:
    """Upload, preview, measure, read."""
    vectors, names = write_vectors(folder)
    tour.open("/embeddings")
    page = tour.page
    page.get_by_label("A file of vectors").set_input_files(vectors)
    page.get_by_label("Names and labels, if they are in a separate file").set_input_files(names)
    page.get_by_role("button", name="Upload and preview").click()
    expect(page.get_by_role("button", name="Measure these embeddings")).to_be_visible()
    tour.picture("upload", 760)
    page.get_by_role("button", name="Measure these embeddings").click()
    expect(page.get_by_role("navigation", name="Parts of this page")).to_be_visible()
    tour.picture("report", 1050)


def upload_dataset(tour: Tour) -> None:
    """Upload the data set of the tutorial, unless it exists."""
    if any(dataset["name"] == DATASET for dataset in tour.client.datasets()):
        return
    page = tour.page
    tour.open("/datasets")
    for label, name in (("Train file", "train.tsv"), ("Validation file", "validation.tsv")):
        page.get_by_label(label).set_input_files(SAMPLE / name)
    page.get_by_label("Name", exact=True).fill(DATASET)
    page.get_by_role("button", name="Upload", exact=True).click()
    expect(page.get_by_role("heading", name=DATASET)).to_be_visible()


def launch(tour: Tour) -> str:
    """Launch the sweep, and the second one by its file; return the first one's id."""
    page = tour.page
    [dataset] = [row["id"] for row in tour.client.datasets() if row["name"] == DATASET]
    tour.open(f"/experiments/new?{urlencode({'dataset_id': dataset, **FORM})}")
    existing_ids = {row["name"]: row["id"] for row in tour.client.experiments()}
    if FORM["name"] not in existing_ids:
        page.get_by_role("button", name="Launch", exact=True).click()
        expect(page.get_by_role("heading", name=FORM["name"])).to_be_visible()
    if "across" in tour.names and "CosReg on agreement" not in existing_ids:
        tour.client.sweep(SECOND, dataset=DATASET)
    return str(next(row["id"] for row in tour.client.experiments() if row["name"] == FORM["name"]))


def show_experiment(tour: Tour, experiment: str) -> None:
    """Show it while it trains, when it has ended, and its means for a paper."""
    page = tour.page
    finished = wait(tour, experiment, 4)
    if finished < len(tour.client.experiment(experiment)["runs"]):
        tour.open(f"/experiments/{experiment}")
        tour.picture("watching", 720)
    wait(tour, experiment)
    tour.open(f"/experiments/{experiment}")
    tour.picture("experiment", 1070)
    tour.open(f"/experiments/{experiment}?tab=export")
    page.locator("#means summary", has_text="LaTeX").click()
    tour.picture("means", 760, "#means")


def show_across(tour: Tour) -> None:
    """Show both sweeps in one figure."""
    if "across" not in tour.names:
        return
    for experiment in tour.client.experiments():
        if experiment["name"].endswith("on agreement"):
            wait(tour, experiment["id"])
    tour.open(f"/compare/runs?{urlencode({'q': BOTH, 'group': ['regularizer', 'lam']}, doseq=True)}")
    tour.picture("across", 1000)


def wait(tour: Tour, experiment: str, runs: int | None = None) -> int:
    """Wait until a number of runs have finished, or all have ended; return how many have finished."""
    end = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < end:
        all_runs = tour.client.experiment(experiment)["runs"]
        finished = [run["status"] for run in all_runs].count("finished")
        if finished == (runs or len(all_runs)) or all(run["status"] in ("finished", "failed") for run in all_runs):
            return finished
        time.sleep(5)
    raise TimeoutError(f"the runs of {experiment} did not end within {PATIENCE_SECONDS} s")


@contextmanager
def dashboard(folder: Path, url: str | None) -> Iterator[str]:
    """Yield the address of a running dashboard, or of a new one with its data in the folder."""
    if url:
        yield url
        return
    server = Serving(folder / "data", free_port(), {})
    try:
        yield server.url
    finally:
        server.stop()


def main() -> None:
    """Walk through the tutorial. Sweeps that the folder holds are not trained again."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where the dashboard keeps its data")
    all_names = (*OF_EMBEDDINGS, *OF_SWEEPS)
    parser.add_argument("names", nargs="*", metavar="name", help=f"pictures to take, of {', '.join(all_names)}")
    parser.add_argument("--url", help="of a dashboard that runs already")
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - set(all_names):
        parser.error(f"No picture is called {', '.join(sorted(unknown))}. Pictures are: {', '.join(all_names)}.")
    arguments.folder.mkdir(parents=True, exist_ok=True)
    with dashboard(arguments.folder.resolve(), arguments.url) as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        page = browser.new_page(viewport={"width": WIDTH, "height": 800}, color_scheme="light")
        page.set_default_timeout(PATIENCE_MILLISECONDS)
        expect.set_options(timeout=PATIENCE_MILLISECONDS)
        tour = Tour(page, url, arguments.names or all_names)
        if set(OF_EMBEDDINGS) & set(tour.names):
            show_embeddings(tour, arguments.folder)
        if set(OF_SWEEPS) & set(tour.names):
            upload_dataset(tour)
            experiment = launch(tour)
            show_experiment(tour, experiment)
            show_across(tour)
        browser.close()


if __name__ == "__main__":
    main()
