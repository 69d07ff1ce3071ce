"""The findings as a page of Markdown: ``python -m isotropy.catalog.findings_document > docs/findings.md``."""

import sys

from isotropy.catalog.document import escaped
from isotropy.catalog.findings import FINDINGS, FindingEntry

INTRODUCTION = """\
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
variances and with variances 1/i (of hubs and norms also with i^-0.3, i^-0.5 and i^-0.7), at 100 to 1,000 rows and 4 to
768 dimensions, interpolated. Each is an exponential
tail fitted to 16 to 100 clouds of a kind, so it is rough; limits fall with the rows, and that of 1,000 stands for
more.

This page is made of the catalog, `isotropy/catalog/findings.py`, by
`python -m isotropy.catalog.findings_document > docs/findings.md`.
"""


def document() -> str:
    """Return the page: every finding in the order in which they are looked for."""
    return INTRODUCTION + "".join(map(_section, FINDINGS.values()))


def _section(entry: FindingEntry) -> str:
    facts = {
        "Called": f"`{entry.slug}`",
        "Statistic": escaped(entry.statistic),
        "Limit": escaped(entry.limit),
        "Effect": escaped(entry.effect),
        "What to do": escaped(entry.advice),
        "Caveat": escaped(entry.pitfall),
        "Source": escaped(entry.citation),
    }
    lines = "".join(f"- {name}: {text}\n" for name, text in facts.items())
    return f'\n## <a id="{entry.slug}"></a>{entry.name}\n\n{escaped(entry.meaning)}\n\n{lines}'


if __name__ == "__main__":
    sys.stdout.write(document())
