"""The documentation's site: it is complete, its links hold, and it obeys the dashboard's policy."""

import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest
from fastapi import FastAPI
from playwright.sync_api import expect
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient

from app.routes import api_router
from app.web.headers import SafeHeaders
from app.web.templating import Documentation
from isoscope.cli import COMMANDS
from tests.browser.conftest import is_complaint
from tests.serving import answering

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built without a warning."""
    built = tmp_path_factory.mktemp("site")
    folders = ["-d", str(built / "doctrees"), str(ROOT / "docs"), str(built / "site")]
    subprocess.run([sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", *folders], check=True)
    return built / "site"


@pytest.fixture
def address(site: Path) -> Iterator[str]:
    """Where it is served, with the headers of the dashboard."""
    application = FastAPI()
    application.mount("/docs", Documentation(site))
    application.add_middleware(SafeHeaders)
    with answering(application) as found:
        yield f"{found}/docs/"


class Page(HTMLParser):
    """What a page leads to, what it can be led to by, and what it keeps inline."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.names: set[str] = set()
        self.inline: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take in what an element says."""
        said = dict(attrs)
        self.links += [said[name] or "" for name in ("href", "src") if name in said]
        self.names |= {said["id"] or ""} if "id" in said else set()
        if (
            tag == "style"
            or "style" in said
            or any(name.startswith("on") for name in said)
            or (tag == "script" and "src" not in said)
        ):
            self.inline.append(self.get_starttag_text() or tag)


def test_every_page_keeps_scripts_and_styles_in_files_and_links_to_what_exists(site):
    pages = {path: Page(path) for path in site.rglob("*.html")}
    assert len(pages) > 20
    assert {path.name: page.inline for path, page in pages.items() if page.inline} == {}
    dead = []
    for path, page in pages.items():
        for link in page.links:
            if re.match(r"\w+:", link):
                continue
            name, _, anchor = unquote(link).partition("#")
            target = (path.parent / name.partition("?")[0]).resolve() if name else path
            if not target.exists() or (anchor and target in pages and anchor not in pages[target].names):
                dead.append(f"{path.relative_to(site)}: {link}")
    assert dead == []


def test_the_reference_names_every_command_route_and_score(site):
    reference = {path.stem: path.read_text(encoding="utf-8") for path in (site / "reference").glob("*.html")}
    for command in COMMANDS:
        assert f'id="{command}"' in reference["commands"]
    application = FastAPI()
    application.include_router(api_router)
    for path in application.openapi()["paths"]:
        assert path in reference["api"]
    assert "Return IsoScore" in reference["isotropy"]


def test_it_is_searched_and_read_under_the_dashboards_policy(page, address):
    said = []
    page.on("console", lambda message: said.append(message) if is_complaint(message) else None)
    page.goto(address)
    expect(page.get_by_role("heading", name="Isoscope", level=1)).to_be_visible()
    page.get_by_role("link", name="Recipes by problem").first.click()
    expect(page.get_by_role("heading", name="Every pair of texts has a high cosine")).to_be_visible()
    page.goto(f"{address}search.html?q=whitening")
    expect(page.get_by_role("link", name=re.compile("Measures|Recipes")).first).to_be_visible()
    assert [message.text for message in said] == []


def test_where_it_is_not_built_a_sentence_says_how(tmp_path, site):
    late = tmp_path / "docs"
    with TestClient(Starlette(routes=[Mount("/docs", Documentation(late))])) as client:
        missing = client.get("/docs/")
        assert missing.status_code == 404
        assert "make docs" in missing.text
        late.symlink_to(site)
        assert client.get("/docs/").status_code == 200
