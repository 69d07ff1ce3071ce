"""The pages of the documentation: Markdown from the docs folder or generated from code, as HTML, with a search."""

import posixpath
import re
from collections.abc import Collection, Mapping
from html import unescape
from typing import Any, NamedTuple

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup

from app.core.process import FILES
from app.documentation import reference
from isoscope.core.errors import NotFoundError

DOCS = FILES / "docs"
IMAGES = DOCS / "images"
HOME = "index"
GROUPS = {
    "Use it": ("tutorial", "recipes", "decide", "calibrate", "own_loop", "clients", "test_split"),
    "Look it up": ("findings", "postprocessing", "regularizers", "options", "settings", "commands", "api"),
    "Trust it": ("statistics", "reproduction", "benchmarks", "reliability", "compared"),
    "Run and change it": (
        "deployment", "architecture", "upstream", "contributing/measure", "contributing/regularizer",
        "contributing/option", "contributing/figure", "contributing/format", "contributing/job",
    ),
}  # fmt: skip
TAG = re.compile(r"<[^>]+>")
MAX_RESULTS = 30
EXCERPT_CHARACTERS = 180


class DocumentSection(NamedTuple):
    """A heading of a page, its anchor, and the text up to the next heading."""

    heading: str
    anchor: str
    text: str


class DocumentPage(NamedTuple):
    """A page as HTML, and its sections for the search."""

    name: str
    title: str
    html: Markup
    sections: list[DocumentSection]


class SearchResult(NamedTuple):
    """A section that has every word of a search."""

    page: DocumentPage
    section: DocumentSection
    excerpt: str


class Library:
    """All pages by name."""

    def __init__(self, openapi: Mapping[str, Any]) -> None:
        sources = {
            path.relative_to(DOCS).with_suffix("").as_posix(): path.read_text(encoding="utf-8")
            for path in sorted(DOCS.rglob("*.md"))
        }
        sources |= {
            "findings": reference.describe_findings(),
            "postprocessing": reference.describe_postprocessing(),
            "options": reference.describe_options(),
            "settings": reference.describe_settings(),
            "commands": reference.describe_commands(),
            "api": reference.describe_api(openapi),
        }
        self.pages = {name: render_page(name, source, sources.keys()) for name, source in sources.items()}

    @property
    def groups(self) -> dict[str, list[DocumentPage]]:
        return {title: [self.pages[name] for name in names] for title, names in GROUPS.items()}

    def get_page(self, name: str) -> DocumentPage:
        if name not in self.pages:
            raise NotFoundError(f"The documentation has no page {name!r}.")
        return self.pages[name]

    def search(self, query: str) -> list[SearchResult]:
        """Return the sections that contain every word of ``query``, those with more words in the heading first."""
        words = query.lower().split()
        results = []
        for page in self.pages.values():
            for section in page.sections:
                text = f"{section.heading}\n{section.text}".lower()
                if words and all(word in text for word in words):
                    n_in_heading = sum(word in section.heading.lower() for word in words)
                    start = max(0, section.text.lower().find(words[0]) - EXCERPT_CHARACTERS // 3)
                    end = start + EXCERPT_CHARACTERS
                    ending = "…" if end < len(section.text) else ""
                    excerpt = f"{'…' if start else ''}{section.text[start:end]}{ending}"
                    results.append((-n_in_heading, SearchResult(page, section, excerpt)))
        return [result for _, result in sorted(results, key=lambda ranked: ranked[0])][:MAX_RESULTS]


def render_page(name: str, source: str, page_names: Collection[str]) -> DocumentPage:
    """Render our own Markdown, which may contain HTML. Headings get the anchors that GitHub gives them.

    The dashboard's security policy allows no style attributes, so the alignment of table columns becomes a class.
    """
    markdown = MarkdownIt("commonmark", {"html": True}).enable("table")
    tokens = markdown.parse(source)
    for token, next_token in zip(tokens, [*tokens[1:], None], strict=True):
        if token.type == "heading_open" and next_token is not None:
            token.attrSet("id", re.sub(r"[^\w\- ]", "", _to_plain_text(markdown, next_token).lower()).replace(" ", "-"))
        if "style" in token.attrs:
            token.attrs = {"class": "number"} if "right" in str(token.attrs["style"]) else {}
        for child in token.children or ():
            for attribute in ("href", "src"):
                if attribute in child.attrs:
                    child.attrSet(attribute, _resolve_link(name, str(child.attrs[attribute]), page_names))
    sections = []
    starts = [index for index, token in enumerate(tokens) if token.type == "heading_open"]
    for start, end in zip(starts, [*starts[1:], len(tokens)], strict=True):
        heading = _to_plain_text(markdown, tokens[start + 1])
        html = markdown.renderer.render(tokens[start + 3 : end], markdown.options, {})  # a heading has three tokens
        text = " ".join(unescape(TAG.sub(" ", html)).split())
        sections.append(DocumentSection(heading, str(tokens[start].attrs["id"]), text))
    html = markdown.renderer.render(tokens, markdown.options, {})
    return DocumentPage(name, sections[0].heading, Markup(html), sections)  # noqa: S704 - our own files


def _to_plain_text(markdown: MarkdownIt, token: Token) -> str:
    return unescape(TAG.sub("", markdown.renderer.render([token], markdown.options, {})))


def _resolve_link(page: str, link: str, page_names: Collection[str]) -> str:
    """Return the dashboard's address for a link on ``page``. Links to files without a page lead to the first page."""
    if re.match(r"\w+:|/|#", link):
        return link
    path, hash_mark, anchor = link.partition("#")
    target = posixpath.normpath(posixpath.join(posixpath.dirname(page), path))
    if target.startswith("images/"):
        return f"/docs/{target}"
    target = target.removesuffix(".md")
    return f"/docs/{target}{hash_mark}{anchor}" if target in page_names and target != HOME else "/docs"
