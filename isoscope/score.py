"""``isoscope score``: measure files, without a server."""

import json
from argparse import Namespace
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from tqdm import tqdm

from isoscope.check import describe_finding, names_column, open_files
from isoscope.cli.printing import (
    CELL_LEGEND,
    MEASURE_NAMES,
    NAME_WIDTH,
    cell,
    describe_dependence,
    lines_by_group,
    write,
)
from isoscope.core.errors import InvalidError
from isoscope.core.formatting import listed
from isoscope.files.contents import MAX_DISTINCT
from isoscope.files.matrix import Matrix
from isoscope.files.selection import excluded_columns, possible_labels
from isoscope.rows import values_of, with_hub_names
from isotropy import findings
from isotropy.catalog import MEASURES, SIMILARITIES, Similarity
from isotropy.cloud import Cloud, read_cloud
from isotropy.report import MeasureResult, measure


def print_score(arguments: Namespace) -> int:
    matrix = open_files(arguments.files, arguments, arguments.annotations)
    with tqdm(total=matrix.n, desc="reading", unit=" rows", unit_scale=True, disable=None, leave=False) as rows:
        cloud = read_cloud(matrix, arguments.seed, progress=rows.update, similarity=Similarity(arguments.similarity))
    if cloud.n == 0:
        raise InvalidError(f"None of the {matrix.n:,} rows is finite, so nothing can be measured.")
    measures: dict[str, MeasureResult] = {}
    with tqdm(arguments.measures or list(MEASURES), unit=" measures", disable=None, leave=False) as slugs:
        for slug in slugs:
            slugs.set_description(f"{MEASURE_NAMES[slug]:{NAME_WIDTH}}")
            measures[slug] = with_hub_names(measure(cloud, [slug])[slug], matrix, names_column(matrix))
    names_of = partial(values_of, matrix, names_column(matrix))
    detected_findings = findings.findings_of(cloud, names_of, matrix.dimension_names)
    return write((_json_lines if arguments.json else _table_lines)(matrix, cloud, measures, detected_findings))


def _json_lines(
    _: Matrix, cloud: Cloud, measures: dict[str, MeasureResult], detected_findings: Sequence[findings.Finding]
) -> Iterator[str]:
    counts = {"n": cloud.n, "d": cloud.d, "n_left_out": cloud.n_left_out}
    document: dict[str, Any] = {name: _entry(count) for name, count in counts.items()}
    document["independent"] = {**_entry(cloud.n_independent), "detail": {"by": cloud.dealing.grouping}}
    for slug, result in measures.items():
        entry = _entry(result.value, result.score.se, result.score.reason)
        document[slug] = {**entry, "n": result.n, "detail": result.detail}
    document["findings"] = [finding.to_dict() for finding in detected_findings]
    yield json.dumps(document, allow_nan=False)


def _entry(value: object, se: float | None = None, reason: str | None = None) -> dict[str, Any]:
    return {"value": value, "se": se, "status": "undefined" if value is None else "ok", "reason": reason}


def _table_lines(
    matrix: Matrix, cloud: Cloud, measures: dict[str, MeasureResult], detected_findings: Sequence[findings.Finding]
) -> Iterator[str]:
    yield f"points n = {cloud.n:,}, dimensions d = {cloud.d:,}"
    if cloud.n_left_out:
        yield f"rows left out for NaN or infinity: {cloud.n_left_out:,}"
    if left_out := excluded_columns(matrix.contents, matrix.selection):
        yield f"columns that are no part of the vector: {listed(left_out)}; --vectors names others"
    for annotation in possible_labels(matrix.contents, matrix.selection):
        yield f"{annotation.name} is taken as a coordinate; if it is a label: --labels {annotation.name}"
    if (dependence_note := describe_dependence(cloud.dealing.grouping, cloud.n_independent)) is not None:
        yield dependence_note
    for finding in detected_findings:
        yield from describe_finding(finding)
    if cloud.similarity is not Similarity.COSINE:
        yield f"neighbors and hubness by {SIMILARITIES[cloud.similarity]}"
    label_columns = [column.name for column in matrix.contents.annotations if column.n_distinct <= MAX_DISTINCT]
    no_labels = (
        f"none; for silhouettes choose a column by --labels: {listed(label_columns)}" if label_columns else "none"
    )
    yield f"labels: {matrix.selection.labels or no_labels}"
    yield CELL_LEGEND
    yield from lines_by_group(
        {
            slug: cell(result.value, result.score.se, result.score.reason, result.n, cloud.n, result.detail)
            for slug, result in measures.items()
        }
    )
