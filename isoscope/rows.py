"""Rows of a matrix: limits, samples, names, and rows that two matrices share."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from isoscope.core.errors import InvalidError
from isoscope.files.matrix import Matrix
from isotropy.cloud import PAIR_ROWS, SAMPLE_ROWS
from isotropy.findings.drift import SharedRows
from isotropy.report import MeasureResult
from isotropy.rows import draw, finite_chunks

# A covariance of this many dimensions takes 2 GiB, and several are held at once.
MAX_DIMENSIONS = 16_384


def require_measurable(matrix: Matrix) -> None:
    if matrix.d > MAX_DIMENSIONS:
        raise InvalidError(
            f"Expected at most {MAX_DIMENSIONS:,} columns, of which a covariance still fits into memory, got "
            f"{matrix.d:,}. If each column is a sample, swap rows and columns; else take fewer dimensions."
        )


def draw_rows(matrix: Matrix, seed: int) -> tuple[Tensor, Tensor]:
    """Return the sampled rows [at most ``PAIR_ROWS``, d] whose pairs a report by that seed uses, and their positions.

    They are the ``pairs`` of ``isotropy.cloud.read_cloud``, but nothing is summed.
    """
    points, rows = draw(matrix, SAMPLE_ROWS, seed)
    # Copies, or the whole sample would be held for as long as its head.
    return points[:PAIR_ROWS].clone(), rows[:PAIR_ROWS].clone()


def values_of(matrix: Matrix, annotation: str | None, rows: Tensor) -> list[str] | None:
    """Return the names or labels of rows by position in the file; None where none were chosen."""
    if annotation is None:
        return None
    indices = {row: index for index, row in enumerate(rows.tolist())}
    values = [""] * len(indices)
    for row, value in enumerate(matrix.contents.values(annotation)):
        if (index := indices.get(row)) is not None:
            values[index] = value
    return values


def pairs_by_name(matrix: Matrix, names: str | None, baseline: Matrix, baseline_names: str | None) -> dict[int, int]:
    """Return the position in the other matrix of each row whose name is unique in both; nothing without names."""
    now, before = _unique_names(matrix, names), _unique_names(baseline, baseline_names)
    return {now[name]: before[name] for name in now.keys() & before.keys()}


def pairs_by_place(matrix: Matrix, baseline: Matrix) -> dict[int, int]:
    """Return the pairs of two matrices that are parts of one file."""
    ours, theirs = (
        range(part.n) if part.row_places is None else part.row_places.tolist() for part in (matrix, baseline)
    )
    baseline_rows = {position: row for row, position in enumerate(theirs)}
    return {row: baseline_rows[position] for row, position in enumerate(ours) if position in baseline_rows}


def sampled(pairs: Mapping[int, int], limit: int, seed: int) -> list[int]:
    order = torch.randperm(len(pairs), generator=torch.Generator().manual_seed(seed))[:limit].tolist()
    in_order = sorted(pairs)
    return [in_order[index] for index in order]


def shared_rows(matrix: Matrix, baseline: Matrix, pairs: Mapping[int, int], limit: int, seed: int) -> SharedRows | None:
    """Return a sample of the paired rows that are finite in both; None without any."""
    rows = sampled(pairs, limit, seed)
    ours, theirs = rows_at(matrix, rows), rows_at(baseline, [pairs[row] for row in rows])
    finite = ours.isfinite().all(1) & theirs.isfinite().all(1)
    return SharedRows(ours[finite], theirs[finite]) if finite.any() else None


def rows_at(matrix: Matrix, positions: Sequence[int]) -> Tensor:
    """Return rows as float64, NaN where they are not finite."""
    indices = {position: number for number, position in enumerate(positions)}
    selected = torch.full((len(positions), matrix.d), torch.nan, dtype=torch.float64)
    for rows, file_rows, _ in finite_chunks(matrix):
        for number, position in enumerate(file_rows.tolist()):
            if position in indices:
                selected[indices[position]] = rows[number].double()
    return selected


def _unique_names(matrix: Matrix, names: str | None) -> dict[str, int]:
    rows_by_name: dict[str, int] = {}
    repeated = set()
    for row, name in enumerate(() if names is None else matrix.contents.values(names)):
        if name in rows_by_name:
            repeated.add(name)
        rows_by_name[name] = row
    return {name: row for name, row in rows_by_name.items() if name and name not in repeated}


def with_names(finding: MeasureResult, matrix: Matrix, annotation: str | None) -> MeasureResult:
    """Add the names of hubs to a finding of ``isotropy.report.measure``, with rows counted as in the file."""
    hubs = (finding.detail or {}).get("hubs")
    if not hubs:
        return finding
    rows = [hub["row"] for hub in hubs]
    names: Sequence[str | None] = values_of(matrix, annotation, torch.tensor(rows)) or [None] * len(rows)
    positions = matrix.in_file(np.array(rows)).tolist()
    named_hubs = [
        {"row": position, "name": name, "occurrences": hub["occurrences"]}
        for position, name, hub in zip(positions, names, hubs, strict=True)
    ]
    return finding._replace(detail={**(finding.detail or {}), "hubs": named_hubs})
