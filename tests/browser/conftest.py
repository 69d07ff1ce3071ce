"""Real Chromium on the real thing: every message of its console is a failure."""

import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

from tests.ports import free_port
from tests.serving import Serving

NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next((path for name in NAMES if (path := shutil.which(name))), None)
PATIENCE_MILLISECONDS = 60_000
# The processor draws what graphics would.
ARGUMENTS = ["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
ARGUMENTS += ["--disable-background-networking", "--no-first-run", "--disable-sync"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser for one module: while it is open an event loop runs in this thread, in which no other test could."""
    if CHROMIUM is None:
        pytest.skip("there is no Chromium on this machine: install the package chromium to run the browser tests")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def serving_module(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """One dashboard for the tests of a module, each of which looks at what it made itself or only looks."""
    server = Serving(tmp_path_factory.mktemp("module") / "data", free_port(), {})
    yield server
    server.stop()


HARMLESS = (
    # What a page shows itself, and the console repeats: a refusal, and a connection that a test has cut.
    "Failed to load resource: the server responded with a status of 4",
    "Failed to load resource: net::ERR_CONNECTION_RESET",
    # Advice on speed, for how plotly writes words in space, and for a processor that stands in for graphics.
    "Canvas2D: Multiple readback operations using getImageData are faster",
    "[.WebGL-",
)


def is_complaint(said: ConsoleMessage) -> bool:
    """Whether the console says that something is wrong."""
    return said.type in ("error", "warning") and not said.text.startswith(HARMLESS)


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1280, "height": 900}, accept_downloads=True)
    page = context.new_page()
    complaints: list[str] = []
    page.on("console", lambda said: complaints.append(said.text) if is_complaint(said) else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.set_default_timeout(PATIENCE_MILLISECONDS)
    expect.set_options(timeout=PATIENCE_MILLISECONDS)
    yield page
    context.close()
    assert complaints == []
