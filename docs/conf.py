"""The documentation as a site, built by `make docs` into frontend/docs, where the dashboard finds it.

The dashboard's policy allows no inline script or style, so what the theme writes into pages is moved to files.
"""

import re
import sys
from functools import partial
from hashlib import blake2b
from pathlib import Path

from sphinx.application import Sphinx

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

project = "Isoscope"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinxarg.ext", "docs.reference.routes"]
html_theme = "furo"
html_title = "Isoscope"
html_show_copyright = False
html_show_sourcelink = False
html_copy_source = False
html_static_path: list[str] = []
exclude_patterns = ["contributing/*"]
myst_heading_anchors = 3
# Anchors that the generated pages write themselves; tests/contract/test_documents.py follows every link.
suppress_warnings = ["myst.domains", "myst.xref_missing", "ref.python"]
myst_ref_domains = ["std"]
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
toc_object_entries = False

SCRIPT = re.compile(r"<script>(.*?)</script>", re.DOTALL)
STYLE = re.compile(r"<style>(.*?)</style>", re.DOTALL)
ATTRIBUTE = re.compile(r'<([a-z][^<>]*?) style="([^"]*)"([^<>]*)>')
CLASS = re.compile(r'\bclass="([^"]*)"')


def setup(app: Sphinx) -> None:
    """Move inline scripts and styles to files once the pages are written."""
    app.connect("build-finished", move_inline)


def move_inline(app: Sphinx, failed: Exception | None) -> None:
    """Give each inline script and style a file of its own name, and each style attribute a class."""
    if failed is not None or app.builder.name != "html":
        return
    out = Path(app.outdir)
    rules: dict[str, str] = {}
    for page in out.rglob("*.html"):
        root = "../" * (len(page.relative_to(out).parts) - 1)
        text = page.read_text(encoding="utf-8")
        for content in set(SCRIPT.findall(text)):
            source = root + _written(out, content, "js")
            text = text.replace(f"<script>{content}</script>", f'<script src="{source}"></script>')
        for content in set(STYLE.findall(text)):
            text = text.replace(f"<style>{content}</style>", _style_sheet(root + _written(out, content, "css")))
        text = ATTRIBUTE.sub(partial(_with_class, rules=rules), text)
        page.write_text(text.replace("</head>", _style_sheet(f"{root}_static/moved.css") + "</head>", 1))
    (out / "_static/moved.css").write_text("".join(f".{name} {{ {rule} }}\n" for name, rule in sorted(rules.items())))


def _style_sheet(address: str) -> str:
    return f'<link rel="stylesheet" href="{address}">'


def _written(out: Path, content: str, suffix: str) -> str:
    name = f"_static/moved-{_hash(content)}.{suffix}"
    (out / name).write_text(content, encoding="utf-8")
    return name


def _with_class(found: re.Match[str], rules: dict[str, str]) -> str:
    before, rule, after = found.groups()
    name = f"moved-{_hash(rule)}"
    rules[name] = rule
    element = before + after
    if CLASS.search(element):
        return "<" + CLASS.sub(rf'class="\1 {name}"', element, count=1) + ">"
    return f'<{before} class="{name}"{after}>'


def _hash(text: str) -> str:
    return blake2b(text.encode(), digest_size=6).hexdigest()
