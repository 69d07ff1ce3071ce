import re
from html.parser import HTMLParser

import pytest
from fastapi.testclient import TestClient

from app.core.settings import Settings
from app.db.config import TRAINING_OPTIONS
from app.documentation.library import GROUPS
from app.main import create_app
from app.operations.migrate import migrate
from app.web.templating import FRONTEND
from isoscope.cli import COMMANDS
from isotropy.catalog import FINDINGS, METHODS


class DocumentParser(HTMLParser):
    def __init__(self, html):
        super().__init__()
        self.links, self.anchors, self.inline = [], set(), []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.links += [attributes[name] for name in ("href", "src") if attributes.get(name)]
        self.anchors.add(attributes.get("id"))
        if "style" in attributes or tag == "style" or (tag == "script" and "src" not in attributes):
            self.inline.append(self.get_starttag_text())


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    settings = Settings(data_dir=tmp_path_factory.mktemp("docs"), sample=False)
    migrate(settings)
    with TestClient(create_app(settings), base_url="http://localhost") as client:
        yield client


@pytest.fixture(scope="module")
def documents(client):
    addresses = ["/docs", *(f"/docs/{name}" for names in GROUPS.values() for name in names), "/docs/compared"]
    responses = {address: client.get(address) for address in addresses}
    assert {address: response.status_code for address, response in responses.items()} == dict.fromkeys(addresses, 200)
    return {address: response.text for address, response in responses.items()}


def test_documents_have_no_inline_code_or_dead_links(client, documents):
    parsed = {address: DocumentParser(html) for address, html in documents.items()}
    assert {address: parser.inline for address, parser in parsed.items() if parser.inline} == {}
    links = {
        (target or address, anchor): f"{address}: {link}"
        for address, parser in parsed.items()
        for link in parser.links
        for target, _, anchor in [link.partition("#")]
        if not re.match(r"\w+:", link) and not target.startswith("/static/")
    }
    dead = []
    for target in sorted({target for target, _ in links} - set(parsed)):
        response = client.get(target)
        is_html = response.headers.get("content-type", "").startswith("text/html")
        parsed[target] = DocumentParser(response.text if is_html else "")
        if response.status_code != 200:
            dead.append(target)
    dead += [link for (target, anchor), link in links.items() if anchor and anchor not in parsed[target].anchors]
    assert dead == []


def test_pages_link_to_existing_headings_and_search_finds_them(documents, client):
    sources = "".join(path.read_text("utf-8") for path in (FRONTEND / "templates").rglob("*.html"))
    links = set(re.findall(r'"(/docs/\w+)(?:#([\w-]+))?"', sources))
    assert len(links) > 3
    for address, anchor in links:
        assert not anchor or anchor in DocumentParser(documents[address]).anchors, f"{address}#{anchor}"
    html = client.get("/docs/search", params={"q": "whitening"}).text
    links = [link for link in DocumentParser(html.partition("<article>")[2]).links if link.startswith("/docs/")]
    assert links
    assert "whitening" in links[0]
    assert "No section has all of these words" in client.get("/docs/search", params={"q": "zzyzx"}).text
    for address in ("/docs/none", "/docs/..%2f..%2fapp", "/docs/contributing/none", "/docs/images/none.png"):
        assert client.get(address).status_code == 404


def test_reference_lists_every_name(client, documents):
    expected_texts = {
        "commands": [f"isoscope {command}" for command in COMMANDS],
        "api": client.get("/api/openapi.json").json()["paths"],
        "options": [f"<code>{option}</code>" for option in TRAINING_OPTIONS],
        "settings": [f"ISOSCOPE_{setting.upper()}" for setting in Settings.model_fields],
        "findings": [f'id="{slug}"' for slug in FINDINGS],
        "postprocessing": [f'id="{slug}"' for slug in METHODS],
    }
    for page, words in expected_texts.items():
        assert [word for word in words if word not in documents[f"/docs/{page}"]] == []
