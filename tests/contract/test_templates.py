"""All templates compile, are used, and obey the Content-Security-Policy."""

import re
from pathlib import Path

from jinja2 import TemplateError

from app.web.templating import FRONTEND, create_environment

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
