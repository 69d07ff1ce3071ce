"""``isoscope score``: measure files, without a server."""

import json
from argparse import Namespace
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from tqdm import tqdm

from isoscope.check import describe_finding, names_column, open_files, read_with_progress
from isoscope.cli.printing import (
    MEASURE_LEGEND,
    MEASURE_NAMES,
    NAME_WIDTH,
    describe_dependence,
    format_measure,
    lines_by_group,
    write,
)
from isoscope.core.errors import InvalidError
from isoscope.core.formatting import listed
from isoscope.files.contents import MAX_DISTINCT
from isoscope.files.matrix import Matrix
from isoscope.files.selection import excluded_columns, possible_labels
from isoscope.rows import values_of, with_hub_names
from isotropy.catalog import MEASURES, SIMILARITIES, Similarity
from isotropy.cloud import Cloud
from isotropy.findings import Finding, findings_of
from isotropy.report import MeasureResult, measure


def print_score(arguments: Namespace) -> int:
    matrix = open_files(arguments.files, arguments, arguments.annotations)
    cloud = read_with_progress(matrix, arguments.seed, Similarity(arguments.similarity))
    if cloud.n == 0:
        raise InvalidError(f"None of the {matrix.n:,} rows is finite, so nothing can be measured.")
    column = names_column(matrix)
    results: dict[str, MeasureResult] = {}
    with tqdm(arguments.measures or list(MEASURES), unit=" measures", disable=None, leave=False) as slugs_with_bar:
        for slug in slugs_with_bar:
            slugs_with_bar.set_description(f"{MEASURE_NAMES[slug]:{NAME_WIDTH}}")
            result = measure(cloud, [slug])[slug]
            results[slug] = with_hub_names(result, matrix, column)
    findings = findings_of(cloud, partial(values_of, matrix, column), matrix.dimension_names)
    if arguments.json:
        return write([_to_json(cloud, results, findings)])
    return write(_report_lines(matrix, cloud, results, findings))


def _to_json(cloud: Cloud, results: dict[str, MeasureResult], findings: Sequence[Finding]) -> str:
    counts = {"n": cloud.n, "d": cloud.d, "n_left_out": cloud.n_left_out}
    document: dict[str, Any] = {name: _value_entry(count) for name, count in counts.items()}
    document["independent"] = {**_value_entry(cloud.n_independent), "detail": {"by": cloud.dealing.grouping}}
    for slug, result in results.items():
        entry = _value_entry(result.value, result.score.se, result.score.reason)
        document[slug] = {**entry, "n": result.n, "detail": result.detail}
    document["findings"] = [finding.to_dict() for finding in findings]
    return json.dumps(document, allow_nan=False)


def _value_entry(value: object, se: float | None = None, reason: str | None = None) -> dict[str, Any]:
    return {"value": value, "se": se, "status": "undefined" if value is None else "ok", "reason": reason}


def _report_lines(
    matrix: Matrix, cloud: Cloud, results: dict[str, MeasureResult], findings: Sequence[Finding]
) -> Iterator[str]:
    yield f"points n = {cloud.n:,}, dimensions d = {cloud.d:,}"
    if cloud.n_left_out:
        yield f"rows left out for NaN or infinity: {cloud.n_left_out:,}"
    if unused_columns := excluded_columns(matrix.contents, matrix.selection):
        yield f"columns that are no part of the vector: {listed(unused_columns)}; --vectors names others"
    for annotation in possible_labels(matrix.contents, matrix.selection):
        yield f"{annotation.name} is taken as a coordinate; if it is a label: --labels {annotation.name}"
    if (dependence_note := describe_dependence(cloud.dealing.grouping, cloud.n_independent)) is not None:
        yield dependence_note
    for finding in findings:
        yield from describe_finding(finding)
    if cloud.similarity is not Similarity.COSINE:
        yield f"neighbors and hubness by {SIMILARITIES[cloud.similarity]}"
    candidates = [column.name for column in matrix.contents.annotations if column.n_distinct <= MAX_DISTINCT]
    advice = f"; for silhouettes choose a column by --labels: {listed(candidates)}" if candidates else ""
    yield f"labels: {matrix.selection.labels or f'none{advice}'}"
    yield MEASURE_LEGEND
    cells = {
        slug: format_measure(result.value, result.score.se, result.score.reason, result.n, cloud.n, result.detail)
        for slug, result in results.items()
    }
    yield from lines_by_group(cells)
