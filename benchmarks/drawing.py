"""How long Chromium takes to draw a scatter of many single runs, from the address to the last mark, and its plot alone.

Run: python -m benchmarks.drawing, where there is a chromium
"""

import tempfile
from collections.abc import Callable
from functools import partial
from urllib.parse import quote

from playwright.sync_api import Page, sync_playwright

from benchmarks._chromium import ARGUMENTS, CHROMIUM
from benchmarks._many_runs import fill, new_context
from benchmarks._rounds import interleave, machine, rounds_asked, table
from benchmarks._web import web_process

RUNS = (10, 100, 1000)
PATIENCE_MILLISECONDS = 60_000
MARKS = "() => document.querySelectorAll('#figure-isotropy .scatterlayer .point').length"
DRAWN = f"(runs) => ({MARKS})() >= runs"
AGAIN = """async () => {
  const plot = document.querySelector('#figure-isotropy .js-plotly-plot');
  const { data, layout } = plot;
  await Plotly.newPlot(document.body.appendChild(document.createElement('div')), data, layout);
  document.body.lastChild.remove();
}"""


def main() -> None:
    """Print seconds and ratios of interleaved rounds."""
    with tempfile.TemporaryDirectory() as folder:
        paths = _paths(folder)
        with web_process(folder) as url, sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
            pages: dict[str, Callable[[], object]] = {}
            plots: dict[str, Callable[[], object]] = {}
            for runs, path in paths.items():
                page = browser.new_page()
                page.set_default_timeout(PATIENCE_MILLISECONDS)
                pages[f"page of {runs:,} runs"] = partial(_open, page, url + path, runs)
                plots[f"plot of {runs:,} runs"] = partial(page.evaluate, AGAIN)
            opened = interleave(pages, rounds_asked())
            drawn = interleave(plots, rounds_asked())
            said = f"Chromium {browser.version}, drawing without a graphics card"
            browser.close()
    print(f"{machine('fastapi', 'plotly')} {said}.\n")
    print(table(opened, next(iter(opened))) + "\n")
    print(table(drawn, next(iter(drawn))))


def _paths(folder: str) -> dict[int, str]:
    """Where the single runs of an experiment of so many are drawn."""
    context = new_context(folder)
    found = {runs: fill(context, runs=runs, experiments=1, steps=2)[0] for runs in RUNS}
    context.close()
    return {runs: f"/compare/runs?x=iso&seeds=1&q={quote(f'experiment={row}')}" for runs, row in found.items()}


def _open(page: Page, address: str, runs: int) -> None:
    page.goto(address)
    page.wait_for_function(DRAWN, arg=runs)


if __name__ == "__main__":
    main()
