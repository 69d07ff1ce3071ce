"""``isoscope score``: the report of files, without a server."""

import json
import sys
from argparse import Namespace
from collections.abc import Iterator
from typing import Any

from tqdm import tqdm

from app.errors import InvalidError
from app.formats.contents import Contents
from app.formats.matrix import Matrix, select
from app.formats.proposal import propose
from app.formats.selection import Selection
from app.formats.upload import NamedFile, Upload, open_upload
from isotropy.catalog import GROUPS, MEASURES
from isotropy.cloud import Cloud, read_cloud
from isotropy.report import Finding, measure
from workers.points import require_measurable

TWICE_READ = "partition"
"""The measure that takes another pass over the rows."""


def score(given: Namespace) -> int:
    """Print the measures of the files that were named, as a table or as JSON."""
    matrix = _open(given)
    slugs = given.measures or tuple(MEASURES)
    passes = 1 + (TWICE_READ in slugs)
    with tqdm(total=passes * matrix.n, unit=" rows", unit_scale=True, disable=None, leave=False) as bar:
        bar.set_description("reading")
        cloud = read_cloud(matrix, given.seed, progress=bar.update)
        found = measure(cloud, slugs, began=bar.set_description)
    write = _json if given.json else _table
    try:
        sys.stdout.writelines(f"{line}\n" for line in write(cloud, found))
        sys.stdout.flush()
    except OSError as error:
        sys.stderr.write(f"The report could not be written: {error.strerror}.\n")
        return 1
    return 0


def _open(given: Namespace) -> Matrix:
    """Open the files as the page would propose to, but for what was named; rows have labels only if asked for."""
    for path in (*given.files, *([given.annotations] if given.annotations else [])):
        if not path.is_file():
            raise InvalidError(f"There is no file {path}: name one that holds vectors.")
    annotations = NamedFile(given.annotations, given.annotations.name) if given.annotations else None
    _, contents = open_upload(Upload(tuple(NamedFile(path, path.name) for path in given.files), annotations))
    selection = Selection(vectors=_vectors(given, contents), labels=given.labels, transpose=given.transpose)
    matrix = select(contents, selection)
    require_measurable(matrix)
    return matrix


def _vectors(given: Namespace, contents: Contents) -> str | list[str]:
    """Return what was named, or else the likeliest: not the labels, though they may be numbers in a column."""
    named: list[str] | None = given.vectors
    if named is not None:
        return ",".join(named) if contents.parts else named
    vectors = propose(contents).vectors
    return vectors if isinstance(vectors, str) else [column for column in vectors if column != given.labels]


def _json(cloud: Cloud, found: dict[str, Finding]) -> Iterator[str]:
    """Yield one document: the measures by their slugs, and the numbers of rows and dimensions."""
    counts = {"n": cloud.n, "d": cloud.d, "n_left_out": cloud.n_left_out}
    document: dict[str, dict[str, Any]] = {name: _entry(count) for name, count in counts.items()}
    for slug, finding in found.items():
        entry = _entry(finding.value, finding.score.se, finding.score.reason)
        document[slug] = {**entry, "n": finding.n, "detail": finding.detail}
    yield json.dumps(document, allow_nan=False)


def _entry(value: object, se: float | None = None, reason: str | None = None) -> dict[str, Any]:
    return {"value": value, "se": se, "status": "undefined" if value is None else "ok", "reason": reason}


def _table(cloud: Cloud, found: dict[str, Finding]) -> Iterator[str]:
    """Yield the lines of a table by group."""
    yield f"{cloud.n:,} points of {cloud.d:,} dimensions"
    if cloud.n_left_out:
        yield f"rows left out for NaN or infinity: {cloud.n_left_out:,}"
    width = max(len(MEASURES[slug].name) for slug in found)
    for group, heading in GROUPS.items():
        of_group = {slug: finding for slug, finding in found.items() if MEASURES[slug].group == group}
        if of_group:
            yield f"\n{heading}"
        for slug, finding in of_group.items():
            yield f"  {MEASURES[slug].name:{width}}  {_cell(finding, cloud.n)}"


def _cell(finding: Finding, n: int) -> str:
    if finding.value is None:
        return f"undefined: {finding.score.reason}"
    values = finding.value if isinstance(finding.value, list) else [finding.value]
    text = ", ".join("-" if value is None else f"{value:.6g}" for value in values)
    error = "" if finding.score.se is None else f" ± {finding.score.se:.2g}"
    return f"{text}{error}" + ("" if finding.n == n else f"  ({finding.n:,} of {n:,} rows)")
