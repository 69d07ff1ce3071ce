"""Rows that two matrices have in common, by their names or places."""

from collections.abc import Mapping, Sequence

import torch

from isoscope.files.matrix import Matrix
from isotropy.findings.drift import Shared
from isotropy.rows import kept_rows


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


def shared_rows(matrix: Matrix, other: Matrix, pairs: Mapping[int, int], most: int, seed: int) -> Shared | None:
    """Return a sample of the rows that are paired and finite in both; None where there is none."""
    rows = sampled(pairs, most, seed)
    ours, theirs = rows_at(matrix, rows), rows_at(other, [pairs[one] for one in rows])
    both = ours.isfinite().all(1) & theirs.isfinite().all(1)
    return Shared(ours[both], theirs[both]) if both.any() else None


def rows_at(matrix: Matrix, places: Sequence[int]) -> torch.Tensor:
    """Return some rows, float64 [as many, d], NaN where they are not finite."""
    wanted = {place: number for number, place in enumerate(places)}
    found = torch.full((len(places), matrix.d), torch.nan, dtype=torch.float64)
    for rows, own, _ in kept_rows(matrix):
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
