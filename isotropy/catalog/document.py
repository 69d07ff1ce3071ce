"""The catalogue as a page of Markdown: ``python -m isotropy.catalog.document > docs/measures.md``."""

import re
import sys
from collections.abc import Iterator

from isotropy.catalog import GROUPS, Measure, measures_of

INTRODUCTION = """\
# Measures

Everything that Isoscope computes of a cloud of points: what it says, how, and how it misleads. X is the cloud of n
points in d dimensions, S its covariance, λ the eigenvalues of S, greatest first.

This page is made of the catalogue, `isotropy/catalog/`, by `python -m isotropy.catalog.document > docs/measures.md`.
"""


def document() -> str:
    """Return the page: its contents, then every measure under the heading of its group."""
    groups = [(heading, measures) for group, heading in GROUPS.items() if (measures := measures_of(group))]
    contents = (f"- {heading}: {', '.join(map(_link, measures))}\n" for heading, measures in groups)
    sections = (f"\n## {heading}\n{''.join(map(_section, measures))}" for heading, measures in groups)
    return f"{INTRODUCTION}\n{''.join(contents)}{''.join(sections)}"


def _link(measure: Measure) -> str:
    return f"[{_name(measure)}](#{measure.slug})"


def _section(measure: Measure) -> str:
    facts = "".join(f"- {name}: {text}\n" for name, text in _facts(measure))
    heading = f'### <a id="{measure.slug}"></a>{_name(measure)}'
    return f"\n{heading}\n\n{_escaped(measure.meaning)}\n\n{facts}"


def _facts(measure: Measure) -> Iterator[tuple[str, str]]:
    yield "Called", f"`{measure.slug}`"
    yield "Symbol", f"`{measure.symbol}`"
    yield "Formula", f"`{measure.formula}`"
    yield "Range", f"`{measure.range}`"
    if measure.higher_means != "neither":
        yield "Higher means", measure.higher_means
    yield "How it misleads", _escaped(measure.pitfall)
    yield "Source", _escaped(measure.citation)


def _name(measure: Measure) -> str:
    return measure.name.replace("*", "★")


def _escaped(text: str) -> str:
    """The text with nothing in it that Markdown takes for a mark of its own."""
    return re.sub(r"([\\`*_<\[\]])", r"\\\1", text)


if __name__ == "__main__":
    sys.stdout.write(document())
