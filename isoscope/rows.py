"""Rows of a matrix: limits, samples, names, and rows that two matrices share."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from isoscope.core.errors import InvalidError
from isoscope.files.matrix import Matrix
from isotropy.cloud import PAIR_ROWS, SAMPLE_ROWS
from isotropy.findings.drift import SharedRows
from isotropy.report import MeasureResult
from isotropy.rows import draw_finite_rows, finite_chunks

# A covariance of this many dimensions takes 2 GiB, and several are in memory at the same time.
MAX_DIMENSIONS = 16_384


def require_measurable(matrix: Matrix) -> None:
    if matrix.d > MAX_DIMENSIONS:
        raise InvalidError(
            f"Expected at most {MAX_DIMENSIONS:,} columns, of which a covariance still fits into memory, got "
            f"{matrix.d:,}. If each column is a sample, swap rows and columns; else take fewer dimensions."
        )


def draw_rows(matrix: Matrix, seed: int) -> tuple[Tensor, Tensor]:
    """Return the rows that ``read_cloud`` samples for pairwise measures, [at most ``PAIR_ROWS``, d], and positions."""
    points, positions = draw_finite_rows(matrix, SAMPLE_ROWS, seed)
    # Copied, because a view would keep the whole sample in memory.
    return points[:PAIR_ROWS].clone(), positions[:PAIR_ROWS].clone()


def values_of(matrix: Matrix, annotation: str | None, rows: Tensor) -> list[str] | None:
    """Return the values of an annotation column at the positions [m] of distinct rows; None without a column."""
    if annotation is None:
        return None
    index_by_row = {row: index for index, row in enumerate(rows.tolist())}
    values = [""] * len(index_by_row)
    for row, value in enumerate(matrix.contents.values(annotation)):
        if row in index_by_row:
            values[index_by_row[row]] = value
    return values


def match_by_name(matrix: Matrix, names: str | None, baseline: Matrix, baseline_names: str | None) -> dict[int, int]:
    """Map rows to baseline rows of the same name, if it is unique in both; ``names`` are columns, None if missing."""
    rows, baseline_rows = _map_unique_names(matrix, names), _map_unique_names(baseline, baseline_names)
    return {rows[name]: baseline_rows[name] for name in rows.keys() & baseline_rows.keys()}


def match_by_position(matrix: Matrix, baseline: Matrix) -> dict[int, int]:
    """Map each row to the baseline row at the same position of the file that both were selected from."""
    positions = matrix.file_positions(np.arange(matrix.n)).tolist()
    baseline_positions = baseline.file_positions(np.arange(baseline.n)).tolist()
    baseline_row_at = {position: row for row, position in enumerate(baseline_positions)}
    return {row: baseline_row_at[position] for row, position in enumerate(positions) if position in baseline_row_at}


def sample_rows(rows: Iterable[int], limit: int, seed: int) -> list[int]:
    """Return at most ``limit`` of the rows, in random order."""
    sorted_rows = sorted(rows)  # so that a seed draws the same rows
    order = torch.randperm(len(sorted_rows), generator=torch.Generator().manual_seed(seed))[:limit].tolist()
    return [sorted_rows[index] for index in order]


def shared_rows(
    matrix: Matrix, baseline: Matrix, baseline_rows: Mapping[int, int], limit: int, seed: int
) -> SharedRows | None:
    """Draw at most ``limit`` rows and those they map to; return the pairs finite in both matrices, None if none are."""
    rows = sample_rows(baseline_rows, limit, seed)
    points, baseline_points = read_rows(matrix, rows), read_rows(baseline, [baseline_rows[row] for row in rows])
    is_finite = points.isfinite().all(1) & baseline_points.isfinite().all(1)
    return SharedRows(points[is_finite], baseline_points[is_finite]) if is_finite.any() else None


def read_rows(matrix: Matrix, positions: Sequence[int]) -> Tensor:
    """Return the rows at distinct positions [m] in that order, float64 [m, d]; NaN for rows that are not finite."""
    index_by_position = {position: index for index, position in enumerate(positions)}
    rows = torch.full((len(positions), matrix.d), torch.nan, dtype=torch.float64)
    for chunk, chunk_positions, _ in finite_chunks(matrix):
        for chunk_row, position in enumerate(chunk_positions.tolist()):
            if position in index_by_position:
                rows[index_by_position[position]] = chunk[chunk_row].double()
    return rows


def _map_unique_names(matrix: Matrix, names: str | None) -> dict[str, int]:
    """Map each name that a single row has to that row, without empty names; empty without a column of names."""
    row_by_name: dict[str, int] = {}
    repeated_names = set()
    for row, name in enumerate(() if names is None else matrix.contents.values(names)):
        if name in row_by_name:
            repeated_names.add(name)
        row_by_name[name] = row
    return {name: row for name, row in row_by_name.items() if name and name not in repeated_names}


def with_hub_names(result: MeasureResult, matrix: Matrix, annotation: str | None) -> MeasureResult:
    """Add names from an annotation column to a result's hubs, if any, and convert their rows to file positions."""
    hubs = (result.detail or {}).get("hubs")
    if not hubs:
        return result
    rows = [hub["row"] for hub in hubs]
    names: Sequence[str | None] = values_of(matrix, annotation, torch.tensor(rows)) or [None] * len(rows)
    positions = matrix.file_positions(np.array(rows)).tolist()
    named_hubs = [
        {"row": position, "name": name, "occurrences": hub["occurrences"]}
        for position, name, hub in zip(positions, names, hubs, strict=True)
    ]
    return result._replace(detail={**(result.detail or {}), "hubs": named_hubs})
