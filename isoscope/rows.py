"""Rows of a matrix: how many dimensions can be measured, a sample, what rows are called, and those in two matrices."""

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
    """Refuse a matrix of more dimensions than can be measured.

    Raises:
        InvalidError: it has more than ``MAX_DIMENSIONS``.

    """
    if matrix.d > MAX_DIMENSIONS:
        raise InvalidError(
            f"Expected at most {MAX_DIMENSIONS:,} columns, of which a covariance still fits into memory, got "
            f"{matrix.d:,}. If each column is a sample, swap rows and columns; else take fewer dimensions."
        )


def draw_rows(matrix: Matrix, seed: int) -> tuple[Tensor, Tensor]:
    """Return the rows whose pairs a report by that seed looks at, and their places in the file, int64.

    They are the ``pairs`` of ``isotropy.cloud.read_cloud``, [at most ``PAIR_ROWS``, d], but nothing is summed.
    """
    points, rows = draw(matrix, SAMPLE_ROWS, seed)
    # Copies, or the whole sample would be held for as long as its head.
    return points[:PAIR_ROWS].clone(), rows[:PAIR_ROWS].clone()


def values_of(matrix: Matrix, annotation: str | None, rows: Tensor) -> list[str] | None:
    """Return the names or labels of some rows, given by their places in the file; None where none were chosen."""
    if annotation is None:
        return None
    places = {row: place for place, row in enumerate(rows.tolist())}
    found = [""] * len(places)
    for row, value in enumerate(matrix.contents.values(annotation)):
        if (place := places.get(row)) is not None:
            found[place] = value
    return found


def pairs_by_name(matrix: Matrix, names: str | None, other: Matrix, other_names: str | None) -> dict[int, int]:
    """Return for each row whose name one row alone has in both the place of that row in the other.

    Nothing where rows of one have no names.
    """
    now, before = _places(matrix, names), _places(other, other_names)
    return {now[name]: before[name] for name in now.keys() & before.keys()}


def pairs_by_place(matrix: Matrix, other: Matrix) -> dict[int, int]:
    """Return the same of two matrices that are parts of one file."""
    there = {place: row for row, place in enumerate(_in_file(other))}
    return {row: there[place] for row, place in enumerate(_in_file(matrix)) if place in there}


def sampled(pairs: Mapping[int, int], most: int, seed: int) -> list[int]:
    """Return at most so many of the rows that are paired, in random order."""
    order = torch.randperm(len(pairs), generator=torch.Generator().manual_seed(seed))[:most].tolist()
    in_order = sorted(pairs)
    return [in_order[one] for one in order]


def shared_rows(matrix: Matrix, other: Matrix, pairs: Mapping[int, int], most: int, seed: int) -> SharedRows | None:
    """Return a sample of the rows that are paired and finite in both; None where there is none."""
    rows = sampled(pairs, most, seed)
    ours, theirs = rows_at(matrix, rows), rows_at(other, [pairs[one] for one in rows])
    both = ours.isfinite().all(1) & theirs.isfinite().all(1)
    return SharedRows(ours[both], theirs[both]) if both.any() else None


def rows_at(matrix: Matrix, places: Sequence[int]) -> Tensor:
    """Return some rows, float64 [as many, d], NaN where they are not finite."""
    wanted = {place: number for number, place in enumerate(places)}
    found = torch.full((len(places), matrix.d), torch.nan, dtype=torch.float64)
    for rows, own, _ in finite_chunks(matrix):
        for number, place in enumerate(own.tolist()):
            if place in wanted:
                found[wanted[place]] = rows[number].double()
    return found


def _places(matrix: Matrix, names: str | None) -> dict[str, int]:
    """Return where each name stands that one row alone has."""
    places: dict[str, int] = {}
    twice = set()
    for row, name in enumerate(() if names is None else matrix.contents.values(names)):
        if name in places:
            twice.add(name)
        places[name] = row
    return {name: row for name, row in places.items() if name and name not in twice}


def _in_file(matrix: Matrix) -> Sequence[int]:
    return range(matrix.n) if matrix.row_places is None else matrix.row_places.tolist()


def with_names(found: MeasureResult, matrix: Matrix, annotation: str | None) -> MeasureResult:
    """Return what was found of hubness with the hubs' names, and their rows as places in the file.

    Args:
        found: of ``isotropy.report.measure``; without hubs it is returned as it is.
        matrix: the rows that were measured.
        annotation: what names them; None where they have no names.

    """
    hubs = (found.detail or {}).get("hubs")
    if not hubs:
        return found
    rows = [one["row"] for one in hubs]
    names: Sequence[str | None] = values_of(matrix, annotation, torch.tensor(rows)) or [None] * len(rows)
    places = matrix.in_file(np.array(rows)).tolist()
    told = [
        {"row": place, "name": name, "occurrences": one["occurrences"]}
        for place, name, one in zip(places, names, hubs, strict=True)
    ]
    return found._replace(detail={**(found.detail or {}), "hubs": told})
