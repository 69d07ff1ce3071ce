"""The catalog as two pages of Markdown, one of measures and one of findings.

Run: python -m docs.catalog > docs/measures.md
     python -m docs.catalog findings > docs/findings.md
"""

import re
import sys
from collections.abc import Iterable, Iterator

from isotropy import catalog

INTRODUCTION = """\
# Measures

Every measure of a cloud of points: what it tells you, its formula, and its caveats. X is the cloud of n points in d
dimensions, S its covariance, and λ the eigenvalues of S, largest first.

[Post-processing](#post-processing), which changes a cloud, is at the end.

Reports show reference values beside each measure: three generated clouds, each layer of the bundled encoder over the
sample sentences, and the embeddings that you starred. Most measures depend on n and d, so both stand beside each value.
`python -m benchmarks.reference_values` makes them.

The catalog in `isotropy/catalog/` generates this page: `python -m docs.catalog > docs/measures.md`.
"""

POSTPROCESSING = """\

## Post-processing

Maps that make points more isotropic, fitted on some rows and applied to any. x is a point; μ and U Λ Uᵀ are mean and
covariance of the fitted points. `isotropy.postprocess.held_out` evaluates each on rows it was not fitted on.
"""


COMPARED = {
    "never": "no interval",
    "at equal n": "an interval between equal numbers of rows",
    "at any n": "an interval between any numbers of rows",
}


def document() -> str:
    """Return the page: its contents, every measure under the heading of its group, every method of post-processing."""
    groups = [
        (heading, measures) for group, heading in catalog.GROUPS.items() if (measures := catalog.measures_of(group))
    ]
    contents = (_contents(heading, measures) for heading, measures in groups)
    sections = (f"\n## {heading}\n{''.join(map(_section, measures))}" for heading, measures in groups)
    methods = "".join(map(_method, catalog.METHODS.values()))
    listed = _contents("Post-processing", catalog.METHODS.values())
    return f"{INTRODUCTION}\n{''.join(contents)}{listed}{''.join(sections)}{POSTPROCESSING}{methods}"


def _contents(heading: str, described: Iterable[catalog.Measure | catalog.MethodEntry]) -> str:
    variants: dict[str, list[str]] = {}
    ideas = []
    for one in described:
        if isinstance(one, catalog.Measure) and one.variant_of:
            variants.setdefault(one.variant_of, []).append(_link(one))
        else:
            ideas.append(one)
    listed = (_link(one) + (f" ({', '.join(variants[one.slug])})" if one.slug in variants else "") for one in ideas)
    return f"- {heading}: {', '.join(listed)}\n"


def _link(described: catalog.Measure | catalog.MethodEntry) -> str:
    return f"[{_name(described)}](#{described.slug})"


def _section(measure: catalog.Measure) -> str:
    facts = "".join(f"- {name}: {text}\n" for name, text in _facts(measure))
    heading = f'### <a id="{measure.slug}"></a>{_name(measure)}'
    return f"\n{heading}\n\n{escaped(measure.meaning)}\n\n{facts}"


def _facts(measure: catalog.Measure) -> Iterator[tuple[str, str]]:
    yield "Called", f"`{measure.slug}`"
    if measure.variant_of:
        yield "Variant of", _link(catalog.MEASURES[measure.variant_of])
    yield "Symbol", f"`{measure.symbol}`"
    yield "Formula", f"`{measure.formula}`"
    if measure.value:
        yield "Its one number", escaped(measure.value)
    yield "Range", f"`{measure.range}`"
    if measure.higher_means != "neither":
        yield "Higher means", measure.higher_means
    if measure.bias:
        yield "Bias", escaped(measure.bias)
    if measure.corrected:
        yield "Bias-corrected form", f"`{measure.corrected}`"
    yield "Error", escaped(measure.error_sentence)
    yield "Differences", COMPARED[measure.compared]
    if measure.shown_in:
        yield "Shown in", "; ".join(text for place, text in catalog.MEASURE_PAGES.items() if place in measure.shown_in)
    yield "Caveats", escaped(measure.pitfall)
    yield "Source", escaped(measure.citation)


def _method(method: catalog.MethodEntry) -> str:
    facts = {
        "Called": f"`{method.slug}`",
        "Formula": f"`{method.formula}`",
        **{f"Parameter `{one.name}`": _parameter(one) for one in method.parameters},
        "Caveats": escaped(method.pitfall),
        "Source": escaped(method.citation),
    }
    lines = "".join(f"- {name}: {text}\n" for name, text in facts.items())
    return f'\n### <a id="{method.slug}"></a>{_name(method)}\n\n{escaped(method.meaning)}\n\n{lines}'


def _parameter(parameter: catalog.MethodParameter) -> str:
    default = "" if parameter.default is None else f", by default {parameter.default}"
    return escaped(f"{parameter.meaning} {parameter.range}{default}.")


def _name(described: catalog.Measure | catalog.MethodEntry) -> str:
    return described.name.replace("*", "★")


def escaped(text: str) -> str:
    """The text with nothing in it that Markdown takes for a mark of its own."""
    return re.sub(r"([\\`*_<\[\]])", r"\\\1", text)


FINDINGS_INTRODUCTION = """\
# Findings

What can be wrong with a cloud of vectors. `isoscope check FILE` prints the findings of a file, a report shows them
below its headline, and `GET /api/embeddings/{id}/findings` returns them.

A finding is a **warning** where its statistic is beyond what healthy clouds reach and mending it changes a score,
or the 10 nearest neighbors, by more than 0.05 and its error. Otherwise it is a **note**. An **error** means that
nothing can be measured before it is mended. Each effect is measured: the same number once more without the rows,
the dimensions or the mean. Causes are looked for before what they cause, and what was blamed is left out of the
rest.

The limits in `isotropy/findings/limits.json` are made by `python -m benchmarks.finding_limits`: 99.9% points of
Gaussian clouds, of multivariate t clouds and of clouds with t coordinates (5 degrees of freedom), with equal
variances and with variances 1/i (of hubs and norms also with i^-0.3, i^-0.5 and i^-0.7), at 20 to 1,000 rows and 4 to
768 dimensions, interpolated. Each is an exponential
tail fitted to 16 to 100 clouds of a kind, so it is rough; limits fall with the rows, and that of 1,000 stands for
more.

This page is made of the catalog, `isotropy/catalog/findings.py`, by
`python -m docs.catalog findings > docs/findings.md`.
"""


def findings_document() -> str:
    """Return the page: every finding in the order in which they are looked for."""
    return FINDINGS_INTRODUCTION + "".join(map(_finding, catalog.FINDINGS.values()))


def _finding(entry: catalog.FindingEntry) -> str:
    facts = {
        "Called": f"`{entry.slug}`",
        "Statistic": escaped(entry.statistic),
        "Limit": escaped(entry.limit),
        "Effect": escaped(entry.effect),
        "What to do": escaped(entry.advice),
        "Where parts match labels": escaped(entry.advice_by_label),
        "Caveat": escaped(entry.pitfall),
        "Source": escaped(entry.citation),
    }
    lines = "".join(f"- {name}: {text}\n" for name, text in facts.items() if text)
    return f'\n## <a id="{entry.slug}"></a>{entry.name}\n\n{escaped(entry.meaning)}\n\n{lines}'


if __name__ == "__main__":
    sys.stdout.write(findings_document() if sys.argv[1:] == ["findings"] else document())
