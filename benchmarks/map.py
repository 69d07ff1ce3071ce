"""How the map of rows moves, selects and loads in Chromium without a graphics card: 100,000 and 1,000,000 points.

Run: python -m benchmarks.map, where there is a chromium

Rows are generated in eight dimensions, with names and labels, and measured as workers measure them: what a map draws
and loads does not depend on the dimensions. A frame takes as long as the browser needs between two of them while each
moves the mouse once, drawing of the processor in place of a graphics card included.
"""

import argparse
import io
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import numpy as np
from playwright.sync_api import Browser, CDPSession, Page, Playwright, sync_playwright

from app.context import Context
from app.embeddings.service import commit_embedding, create_embedding
from app.storage import Incoming
from benchmarks._chromium import ARGUMENTS, CHROMIUM
from benchmarks._many_runs import new_context
from benchmarks._rounds import machine
from benchmarks._web import web_process
from workers.embeddings.inspection import inspect_embedding
from workers.embeddings.measure import measure_embedding

SIZES = (100_000, 1_000_000)
D, GROUPS = 8, 12
FRAMES = 120
PATIENCE_MILLISECONDS = 120_000
WIDTH, HEIGHT = 1400, 900
MOUSE = 1
"""What browsers call the mouse among pointers."""
MEBIBYTE = 2**20

# Moves the pressed mouse once a frame along a circle and lets it go; milliseconds between frames, then those that
# letting go took, and the time to the last pixel, which the processor may still owe.
DRAG = """async ([x, y, radius, frames, pointerId]) => {
  const canvas = document.querySelector("[data-map-points]"), gl = canvas.getContext("webgl2");
  const next = () => new Promise(requestAnimationFrame);
  const point = (kind, i) => {
    const turn = (2 * Math.PI * i) / frames;
    const at = { clientX: x + radius * Math.cos(turn), clientY: y + radius * Math.sin(turn) };
    canvas.dispatchEvent(new PointerEvent(kind, { ...at, pointerId, bubbles: true }));
  };
  const drawn = () => gl.readPixels(0, 0, 1, 1, gl.RGBA, gl.UNSIGNED_BYTE, new Uint8Array(4));
  await next();
  const began = performance.now(), times = [];
  let before = began;
  for (let i = 1; i <= frames; i++) {
    point("pointermove", i);
    await next();
    times.push(performance.now() - before);
    before = performance.now();
  }
  drawn();
  const mean = (performance.now() - began) / frames, let_go = performance.now();
  point("pointerup", frames);
  await next();
  await next();
  drawn();
  return { times, mean, released: performance.now() - let_go };
}"""
READ = """() => {
  const gl = document.querySelector("[data-map-points]").getContext("webgl2");
  gl.readPixels(0, 0, 1, 1, gl.RGBA, gl.UNSIGNED_BYTE, new Uint8Array(4));
}"""
FIRST = "() => Number(document.querySelector('#map')?.dataset.frames) >= 1"
AT_REST = "() => document.querySelector('#map').dataset.drawn === 'all'"


class Dragged(NamedTuple):
    """How long frames took while the mouse was dragged, in milliseconds."""

    times: list[float]
    mean: float
    """Of all frames, from the first move to the last pixel."""
    released: float
    """From letting go to the last pixel of what follows."""
    processor: float
    """Milliseconds of processor time that the browser spent a frame, whoever else shares the cores."""

    @property
    def cells(self) -> str:
        """Median, 95th percentile, mean and processor time, as cells of a table."""
        p95 = statistics.quantiles(self.times, n=20)[-1]
        return f"{statistics.median(self.times):.0f} | {p95:.0f} | {self.mean:.0f} | {self.processor:.0f}"


class Memory(NamedTuple):
    """What processes of the browser hold, in MiB: their own and their part of what they share."""

    page: float
    graphics: float


class Loaded(NamedTuple):
    """How long a map took from its address on, and what it holds then."""

    first: float
    """Seconds to its first frame."""
    whole: float
    """Seconds until every point was drawn."""
    memory: Memory
    empty: Memory
    """Of a browser with an empty page."""


def main() -> None:
    """Print a table of frames and one of loading."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="*", default=SIZES)
    parser.add_argument("--folder", help="keeps the measured rows for the next time")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = asked.folder or temporary
        paths = {rows: _measured(folder, rows) for rows in asked.rows}
        with web_process(folder) as url, sync_playwright() as playwright:
            loaded, dragged = {}, {}
            for rows, path in paths.items():
                loaded[rows] = _load(playwright, url + path)
                dragged[rows] = _drag(playwright, url + path)
            with _browser(playwright) as browser:
                said = f"Chromium {browser.version}, drawing without a graphics card"
    print(f"{machine('fastapi', 'uvicorn')} {said}.\n")
    print("| points | dragging | median ms | p95 ms | mean ms | processor ms | let go ms |")
    print("|---|---|---|---|---|---|---|")
    for rows, found in dragged.items():
        for name, one in found.items():
            print(f"| {rows:,} | {name} | {one.cells} | {one.released:.0f} |")
    print("\n| points | first frame s | all drawn s | page MiB | empty page MiB | graphics MiB | empty MiB |")
    print("|---|---|---|---|---|---|---|")
    for rows, load in loaded.items():
        held, empty = load.memory, load.empty
        memory = f"{held.page:.0f} | {empty.page:.0f} | {held.graphics:.0f} | {empty.graphics:.0f}"
        print(f"| {rows:,} | {load.first:.2f} | {load.whole:.2f} | {memory} |")


def _measured(folder: str, rows: int) -> str:
    """Measure so many generated rows, unless the folder has them, and return the address of their map."""
    kept = Path(folder) / f"map-{rows}"
    if not kept.exists():
        context = new_context(folder)
        began = perf_counter()
        kept.write_text(_measure(context, rows))
        print(f"{rows:,} rows were measured in {perf_counter() - began:.0f} s.")
        context.close()
    return f"/embeddings/{kept.read_text()}?tab=map"


def _measure(context: Context, rows: int) -> str:
    draw = np.random.default_rng(rows)
    group = draw.integers(GROUPS, size=rows)
    centers = draw.normal(size=(GROUPS, D)) * 3
    vectors = (centers[group] + draw.normal(size=(rows, D)) * np.linspace(2, 0.2, D)).astype(np.float32)
    names = np.char.add("row ", np.arange(rows).astype("U7"))
    buffer = io.BytesIO()
    np.savez(buffer, embeddings=vectors, labels=group, names=names)
    buffer.seek(0)
    embedding = create_embedding(context, [Incoming(buffer, f"cloud-{rows}.npz")])
    inspect_embedding(embedding.id, context.settings, "cpu")
    commit_embedding(context, embedding.id)
    measure_embedding(embedding.id, context.settings, "cpu")
    return embedding.id


@contextmanager
def _browser(playwright: Playwright) -> Iterator[Browser]:
    browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
    yield browser
    browser.close()


def _page(browser: Browser) -> Page:
    page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
    page.set_default_timeout(PATIENCE_MILLISECONDS)
    return page


def _load(playwright: Playwright, address: str) -> Loaded:
    """Open a map in a browser that has nothing of it yet."""
    with _browser(playwright) as browser:
        page = _page(browser)
        session = browser.new_browser_cdp_session()
        empty = _memory(session, page)
        began = perf_counter()
        page.goto(address, wait_until="commit")
        page.wait_for_function(FIRST)
        page.evaluate(READ)
        first = perf_counter() - began
        page.wait_for_function(AT_REST)
        page.evaluate(READ)
        return Loaded(first, perf_counter() - began, _memory(session, page), empty)


def _memory(session: CDPSession, page: Page) -> Memory:
    """What renderers and the process of graphics hold, after garbage was collected."""
    page.context.new_cdp_session(page).send("HeapProfiler.collectGarbage")
    found = session.send("SystemInfo.getProcessInfo")["processInfo"]
    return Memory(*(_held([one["id"] for one in found if one["type"] == kind]) for kind in ("renderer", "GPU")))


def _held(processes: Sequence[int]) -> float:
    """MiB that processes hold by themselves, and their part of what they share with others."""
    lines = [line for pid in processes for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()]
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) * 1024 / MEBIBYTE


def _spent(session: CDPSession) -> float:
    """Seconds of processor time that the browser has spent in all its processes."""
    return float(sum(one["cpuTime"] for one in session.send("SystemInfo.getProcessInfo")["processInfo"]))


def _drag(playwright: Playwright, address: str) -> dict[str, Dragged]:
    """Pan a map as it opens and closer, and draw a lasso around the middle of it."""
    with _browser(playwright) as browser:
        page = _page(browser)
        page.goto(address)
        page.wait_for_function(AT_REST)
        session = browser.new_browser_cdp_session()
        found = {"pan": _dragged(session, page, 100)}
        for _ in range(4):
            page.get_by_role("button", name="Zoom in").click()
        found["pan, 6.6 times closer"] = _dragged(session, page, 100)
        page.get_by_role("button", name="Fit").click()
        page.wait_for_function(AT_REST)
        page.get_by_role("button", name="Lasso").click()
        found["lasso"] = _dragged(session, page, 180)
        return found


def _dragged(session: CDPSession, page: Page, radius: float) -> Dragged:
    canvas = page.locator("[data-map-points]")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x + radius, y)
    page.mouse.down()
    before = _spent(session)
    found = page.evaluate(DRAG, [x, y, radius, FRAMES, MOUSE])
    processor = 1000 * (_spent(session) - before) / FRAMES
    page.mouse.up()
    page.wait_for_function(AT_REST)
    return Dragged(**found, processor=processor)


if __name__ == "__main__":
    main()
