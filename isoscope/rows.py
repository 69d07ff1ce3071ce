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
    """Return the rows and positions that ``isotropy.cloud.read_cloud`` samples for pairs, without its sums."""
    points, rows = draw_finite_rows(matrix, SAMPLE_ROWS, seed)
    # Copied, because a view would keep the whole sample in memory.
    return points[:PAIR_ROWS].clone(), rows[:PAIR_ROWS].clone()


def values_of(matrix: Matrix, annotation: str | None, rows: Tensor) -> list[str] | None:
    """Return the values of an annotation for the given rows; None without an annotation."""
    if annotation is None:
        return None
    indices = {row: index for index, row in enumerate(rows.tolist())}
    values = [""] * len(indices)
    for row, value in enumerate(matrix.contents.values(annotation)):
        if (index := indices.get(row)) is not None:
            values[index] = value
    return values


def match_by_name(matrix: Matrix, names: str | None, baseline: Matrix, baseline_names: str | None) -> dict[int, int]:
    """Map each row to the baseline row of the same name, if that name is unique in both matrices."""
    row_by_name, baseline_row_by_name = _read_unique_names(matrix, names), _read_unique_names(baseline, baseline_names)
    return {row_by_name[name]: baseline_row_by_name[name] for name in row_by_name.keys() & baseline_row_by_name.keys()}


def match_by_position(matrix: Matrix, baseline: Matrix) -> dict[int, int]:
    """Map each row to the baseline row at the same position of the file that both were selected from."""
    positions, baseline_positions = (
        range(source.n) if source.file_rows is None else source.file_rows.tolist() for source in (matrix, baseline)
    )
    baseline_row_at = {position: row for row, position in enumerate(baseline_positions)}
    return {row: baseline_row_at[position] for row, position in enumerate(positions) if position in baseline_row_at}


def sample_rows(pairs: Mapping[int, int], limit: int, seed: int) -> list[int]:
    order = torch.randperm(len(pairs), generator=torch.Generator().manual_seed(seed))[:limit].tolist()
    sorted_rows = sorted(pairs)
    return [sorted_rows[index] for index in order]


def shared_rows(matrix: Matrix, baseline: Matrix, pairs: Mapping[int, int], limit: int, seed: int) -> SharedRows | None:
    """Return a sample of the paired rows that are finite in both matrices; None if there are none."""
    rows = sample_rows(pairs, limit, seed)
    points, baseline_points = read_rows(matrix, rows), read_rows(baseline, [pairs[row] for row in rows])
    finite = points.isfinite().all(1) & baseline_points.isfinite().all(1)
    return SharedRows(points[finite], baseline_points[finite]) if finite.any() else None


def read_rows(matrix: Matrix, positions: Sequence[int]) -> Tensor:
    """Return rows [positions, d] as float64; rows that are not finite become NaN."""
    indices = {position: index for index, position in enumerate(positions)}
    selected = torch.full((len(positions), matrix.d), torch.nan, dtype=torch.float64)
    for rows, file_rows, _ in finite_chunks(matrix):
        for index, position in enumerate(file_rows.tolist()):
            if position in indices:
                selected[indices[position]] = rows[index].double()
    return selected


def _read_unique_names(matrix: Matrix, names: str | None) -> dict[str, int]:
    row_by_name: dict[str, int] = {}
    repeated_names = set()
    for row, name in enumerate(() if names is None else matrix.contents.values(names)):
        if name in row_by_name:
            repeated_names.add(name)
        row_by_name[name] = row
    return {name: row for name, row in row_by_name.items() if name and name not in repeated_names}


def with_hub_names(result: MeasureResult, matrix: Matrix, annotation: str | None) -> MeasureResult:
    """Add names to the hubs of a measure's result, and convert their rows to positions in the file."""
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
