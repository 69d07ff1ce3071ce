import json
import re
import shlex
from functools import cache
from html import unescape
from pathlib import Path

from PIL import Image

from app.results.archive.container import MANIFEST, OPTIONAL_MEMBERS, REQUIRED_MEMBERS
from app.web.templating import FRONTEND
from docs.experiment_schema import schema
from isoscope.cli import make_parser

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
TUTORIAL = (ROOT / "docs/tutorial.md").read_text(encoding="utf-8")
MAX_BYTES = 150_000


@cache
def read_prose(path: Path) -> str:
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"`[^`\n]+`", "", text)


@cache
def find_anchors(path: Path) -> set[str]:
    """Return the anchors of a document: its headings as GitHub names them, and each ``<a id>``."""
    text = path.read_text(encoding="utf-8")
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    anchor_ids = set(re.findall(r"<a id=\"(\w+)\"", text))
    return anchor_ids | {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def find_links(path: Path) -> list[str]:
    targets = re.findall(r"\]\(([^)\s]+)\)", read_prose(path))
    return [link for link in targets if not re.match(r"\w+:", link)]


def test_links_of_readme_lead_to_files_and_headings():
    dead = []
    for document in (ROOT / "README.md", ROOT / "CONTRIBUTING.md"):
        for link in find_links(document):
            name, _, anchor = link.partition("#")
            target = (document.parent / name).resolve() if name else document
            if not target.exists() or (anchor and anchor not in find_anchors(target)):
                dead.append(f"{document.name}: {link}")
    assert dead == []


def test_images_are_small_used_and_have_alt_text():
    linked_images = {(document.parent / link).resolve() for document in DOCUMENTS for link in find_links(document)}
    for picture in (ROOT / "docs/images").iterdir():
        assert picture in linked_images
        assert picture.stat().st_size < MAX_BYTES
        with Image.open(picture) as image:
            assert image.mode == "P"
    described = [re.findall(r"!\[([^\]]*)\]", read_prose(document)) for document in DOCUMENTS]
    assert all(len(words) > 20 for texts in described for words in texts)


def test_tutorial_links_open_and_commands_parse(client):
    pages = re.findall(r"<?http://127\.0\.0\.1:8000(/?[\w/]*)", TUTORIAL)
    assert {"", "/playground"} <= set(pages)
    for page in pages:
        if page != "/api/datasets":
            assert client.get(page or "/").status_code == 200
    commands = [line for line in TUTORIAL.splitlines() if line.startswith("isoscope ")]
    assert len(commands) >= 6
    for command in commands:
        words = shlex.split(command)[1:]
        make_parser(words[:1]).parse_args(words)


def test_documented_make_targets_exist():
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    make_targets = {name for path in DOCUMENTS for name in re.findall(r"`make (\w+)", path.read_text(encoding="utf-8"))}
    assert {"run", "test", "screenshots"} <= make_targets <= targets


def test_bold_words_of_tutorial_appear_on_pages():
    sources = [*(FRONTEND / "templates").rglob("*.html"), *(ROOT / "app").rglob("*.py")]
    pages = unescape("\n".join(source.read_text(encoding="utf-8") for source in sources))
    bold = {" ".join(words.split()) for words in re.findall(r"\*\*([^*]+)\*\*", TUTORIAL)}
    assert len(bold) > 20
    assert [words for words in bold if words not in pages] == []


PUBLISHED = Path(__file__).parents[2] / "docs/experiment.schema.json"


def test_published_schema_is_current_and_covers_imports():
    document = json.dumps(schema(), indent=1, ensure_ascii=False) + "\n"
    assert PUBLISHED.read_text() == document, "run: python -m docs.experiment_schema > docs/experiment.schema.json"
    assert schema()["properties"].keys() == {MANIFEST, *REQUIRED_MEMBERS, *OPTIONAL_MEMBERS}
