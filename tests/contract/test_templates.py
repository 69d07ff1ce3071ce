"""Templates: all compile, all that routes name exist, none needs what the Content-Security-Policy forbids."""

import re
from pathlib import Path

import pytest
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


def test_every_template_that_python_names_exists():
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "app").rglob("*.py")]
    named = {name for source in sources for name in re.findall(r'"(\w[\w/]*\.html)"', source)}
    assert named
    assert named <= set(TEMPLATES)


def test_every_template_is_used():
    everything = [*SOURCES.values(), *(path.read_text(encoding="utf-8") for path in (ROOT / "app").rglob("*.py"))]
    used = {name for source in everything for name in re.findall(r'"(\w[\w/]*\.html)"', source)}
    assert used == set(TEMPLATES)


def test_no_template_needs_inline_code_or_another_server():
    found = {
        f"{name}: {forbidden}": match.group()
        for name, source in SOURCES.items()
        for forbidden in FORBIDDEN
        if (match := re.search(forbidden, source))
    }
    assert found == {}


def test_every_static_file_that_a_template_names_exists():
    named = {path for source in SOURCES.values() for path in re.findall(r"(?:static|at|inlined)\('([^']+)'\)", source)}
    assert named
    assert [path for path in named if not (FRONTEND / "static" / path).is_file()] == []


@pytest.mark.parametrize("bundle", ["cartesian", "strict"])
def test_plotly_still_looks_for_the_ids_that_keep_it_from_adding_styles(bundle):
    plotly = (FRONTEND / f"static/vendor/plotly-{bundle}.min.js").read_text(encoding="utf-8")
    (maps,) = re.findall(r'id="([0-9a-f]{64})"', SOURCES["web/_figure.html"])
    assert f'getElementById("{maps}")' in plotly
    assert re.search(r'var \w="plotly.js-style-"\+', plotly)
    assert 'matches(".no-inline-styles")' in plotly
    assert 'id="plotly.js-style-global" class="no-inline-styles"' in SOURCES["web/_figure.html"]


def test_both_bundles_of_plotly_are_of_one_version():
    heads = [path.read_text(encoding="utf-8")[:200] for path in (FRONTEND / "static/vendor").glob("plotly-*.min.js")]
    versions = {found for head in heads for found in re.findall(r"minified\) v(\S+)", head)}
    assert (len(heads), len(versions)) == (2, 1)
