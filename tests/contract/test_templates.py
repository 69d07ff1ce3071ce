import re
from hashlib import sha256
from pathlib import Path

from fastapi.testclient import TestClient
from jinja2 import TemplateError

from app.web.templating import FRONTEND, STATIC, InMemoryFiles, create_environment

ROOT = Path(__file__).parents[2]
TEMPLATES = sorted(
    path.relative_to(FRONTEND / "templates").as_posix() for path in (FRONTEND / "templates").rglob("*.html")
)
SOURCES = {name: (FRONTEND / "templates" / name).read_text(encoding="utf-8") for name in TEMPLATES}

FORBIDDEN = (
    r"<script(?![^>]*\ssrc=)",
    r"<style\b",
    r"<[^>]*\sstyle\s*=",
    r"<[^>]*\son\w+\s*=",
    r"<[^>]*\shx-on",
    r"javascript:",
    r"hx-vals\s*=\s*.js:",
    r"hx-trigger=\"[^\"]*\[",
    r"(src|href)=\"https?://",
    r"\|\s*safe\b",
)


def test_every_template_compiles():
    environment = create_environment()
    refused = {}
    for name in TEMPLATES:
        try:
            environment.get_template(name)
        except TemplateError as error:
            refused[name] = str(error)
    assert refused == {}


def test_templates_exist_and_are_used():
    texts = [*SOURCES.values(), *(path.read_text(encoding="utf-8") for path in (ROOT / "app").rglob("*.py"))]
    used = {name for source in texts for name in re.findall(r'"(\w[\w/]*\.html)"', source)}
    assert used == set(TEMPLATES)


def test_static_files_exist_and_no_template_needs_inline_code():
    violations = {
        f"{name}: {forbidden}": match.group()
        for name, source in SOURCES.items()
        for forbidden in FORBIDDEN
        if (match := re.search(forbidden, source))
    }
    assert violations == {}
    paths = set(re.findall(r"(?:static|at|inline_file)\('([^']+)'\)", "".join(SOURCES.values())))
    assert paths
    assert [path for path in paths if not (FRONTEND / "static" / path).is_file()] == []


def test_plotly_bundles_share_version_and_add_no_styles():
    figure = SOURCES["web/_figure.html"]
    (maps,) = re.findall(r'id="([0-9a-f]{64})"', figure)
    assert 'id="plotly.js-style-global" class="no-inline-styles"' in figure
    versions = []
    for bundle in ("cartesian", "strict"):
        plotly = (FRONTEND / f"static/vendor/plotly-{bundle}.min.js").read_text(encoding="utf-8")
        assert f'getElementById("{maps}")' in plotly
        assert re.search(r'var \w="plotly.js-style-"\+', plotly)
        assert 'matches(".no-inline-styles")' in plotly
        versions += re.findall(r"minified\) v(\S+)", plotly[:200])
    assert (len(versions), len(set(versions))) == (2, 1)


VENDOR = Path(__file__).parents[2] / "frontend" / "static" / "vendor"
NOTICES = (VENDOR / "NOTICES.md").read_text(encoding="utf-8")
CHECKSUMS = dict(re.findall(r"^\| `(\S+)` \| `([0-9a-f]{64})` \|$", NOTICES, flags=re.MULTILINE))


def test_vendored_files_match_checksums_and_have_licenses():
    files = {path.name for path in VENDOR.iterdir()} - {"NOTICES.md"}
    assert {name: sha256((VENDOR / name).read_bytes()).hexdigest() for name in files} == CHECKSUMS
    assert {f"{re.match(r'[a-z]+', name).group()}.LICENSE.txt" for name in files} <= files


def test_every_font_is_declared_once_and_served_as_woff2():
    sheet = (VENDOR.parent / "fonts.css").read_text(encoding="utf-8")
    faces = re.findall(r'src: url\("vendor/([^"]+)"\)', sheet)
    assert sorted(faces) == sorted(name for name in CHECKSUMS if name.endswith(".woff2"))
    assert sheet.count("font-display: swap") == len(faces)
    for face in faces:
        answer = TestClient(InMemoryFiles(directory=STATIC)).get(f"/vendor/{face}")
        assert (answer.status_code, answer.headers["content-type"]) == (200, "font/woff2")
