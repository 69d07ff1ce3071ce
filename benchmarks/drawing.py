"""Time how long Chromium takes to draw a scatter of many single runs: the page to its last mark, and the plot alone.

Run: python -m benchmarks.drawing (needs Chromium)
"""

import tempfile
from collections.abc import Callable
from functools import partial
from urllib.parse import quote

from playwright.sync_api import Page, sync_playwright

from benchmarks._chromium import ARGUMENTS, CHROMIUM
from benchmarks._many_runs import fill, new_context
from benchmarks._rounds import interleave, machine, requested_rounds, table
from benchmarks._web import web_process

RUNS = (10, 100, 1000)
PATIENCE_MILLISECONDS = 60_000
MARKS = "() => document.querySelectorAll('#figure-isotropy .scatterlayer .point').length"
IS_DRAWN = f"(runs) => ({MARKS})() >= runs"
DRAW_AGAIN = """async () => {
  const plot = document.querySelector('#figure-isotropy .js-plotly-plot');
  const { data, layout } = plot;
  await Plotly.newPlot(document.body.appendChild(document.createElement('div')), data, layout);
  document.body.lastChild.remove();
}"""


def main() -> None:
    """Print seconds and ratios of interleaved rounds."""
    with tempfile.TemporaryDirectory() as folder:
        paths = _fill_database(folder)
        with web_process(folder) as url, sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
            pages: dict[str, Callable[[], object]] = {}
            plots: dict[str, Callable[[], object]] = {}
            for runs, path in paths.items():
                page = browser.new_page()
                page.set_default_timeout(PATIENCE_MILLISECONDS)
                pages[f"page of {runs:,} runs"] = partial(_open, page, url + path, runs)
                plots[f"plot of {runs:,} runs"] = partial(page.evaluate, DRAW_AGAIN)
            page_times = interleave(pages, requested_rounds())
            plot_times = interleave(plots, requested_rounds())
            browser_note = f"Chromium {browser.version}, drawing without a graphics card"
            browser.close()
    print(f"{machine('fastapi', 'plotly')} {browser_note}.\n")
    print(table(page_times, next(iter(page_times))) + "\n")
    print(table(plot_times, next(iter(plot_times))))


def _fill_database(folder: str) -> dict[int, str]:
    """Return the path of the scatter of an experiment's single runs, by number of runs."""
    context = new_context(folder)
    experiment_ids = {runs: fill(context, runs=runs, experiments=1, steps=2)[0] for runs in RUNS}
    context.close()
    return {runs: f"/compare/runs?x=iso&seeds=1&q={quote(f'experiment={id_}')}" for runs, id_ in experiment_ids.items()}


def _open(page: Page, address: str, runs: int) -> None:
    page.goto(address)
    page.wait_for_function(IS_DRAWN, arg=runs)


if __name__ == "__main__":
    main()
