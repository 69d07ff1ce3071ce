"""Nearest neighbors by name, of a sample and of one row among all: the look-up job."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from app.core.settings import Settings
from app.db.job_kinds import Job
from app.db.models import Lookup
from app.db.models.embeddings import SAMPLE_SEED
from isoscope.core.errors import InvalidError
from isoscope.files.matrix import Matrix
from isoscope.rows import draw_rows, values_of
from isotropy.catalog import METHODS
from isotropy.cloud import Cloud
from isotropy.points import at_least_float32
from isotropy.postprocess.fitted import Fitted
from isotropy.postprocess.methods import fit
from isotropy.rows import kept_rows
from workers.embeddings.inspection import open_embedding
from workers.job_rows import ResultJob, answer

K = 8
REPORT_QUERIES = 200
"""Names that can be looked up in a report: some 230 kB, of which no other part of the page is made."""
REPORT_METHOD = "all_but_the_top"
BLOCK_ROWS = 64


def named_neighbours(
    names: Sequence[str], before: Tensor, after: Tensor, queries: Tensor, k: int = K
) -> list[dict[str, Any]]:
    """Return the k rows nearest by cosine to each of some rows, before and after.

    Args:
        names: of the rows, n of them.
        before: [n, d] floating.
        after: the same rows mapped, [n, any].
        queries: rows to look up, int64 [m].
        k: neighbors of each; fewer where there are fewer rows.

    Returns:
        One ``{"name", "before": [{"name", "cosine"}], "after": [...]}`` a query, nearest first. A row is not its own
        neighbor. Rows of zeros have no direction: they are nobody's neighbors and have none.

    """
    sides = [_nearest(x, queries, k) for x in (before, after)]
    return [
        {"name": names[query], "before": _named(names, first), "after": _named(names, second)}
        for query, first, second in zip(queries.tolist(), *sides, strict=True)
    ]


def neighbours_data(cloud: Cloud, names: Sequence[str] | None, seed: int) -> dict[str, Any] | None:
    """Return the neighbors of a report: of some named rows as they are, and less mean and top components.

    Args:
        cloud: the points; neighbors are sought among ``cloud.pairs``, on which All-but-the-Top is fitted too.
        names: of the rows of ``cloud.pairs``; None where they have none.
        seed: draws the rows that are looked up.

    Returns:
        As ``FigureData`` has "neighbours"; None without names, with fewer than two rows that have a direction, or
        where squares of the points leave float64, so that there are no components to remove.

    """
    x = cloud.pairs
    own = names or []
    shuffled = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))
    queries = first_named(own, x, shuffled, REPORT_QUERIES) if own else shuffled[:0]
    if len(queries) < 2:
        return None
    parameters = report_parameters(cloud.d)
    try:
        after = fit(REPORT_METHOD, x, **parameters).apply(x)
    except ValueError:
        return None
    of = named_neighbours(own, x, after, queries)
    return {"k": K, "rows": len(x), "method": REPORT_METHOD, "parameters": parameters, "of": of}


def report_parameters(d: int) -> dict[str, Any]:
    """Return the parameters of the report's method for points of d dimensions."""
    return {"D": METHODS[REPORT_METHOD].parameters[0].default_for(d)}


def directions(x: Tensor) -> Tensor:
    """Return rows [n, d] at length 1, in float32 or wider; those of zeros are NaN."""
    wide = at_least_float32(x)
    # Over the greatest entry first, so that no square leaves the range of the dtype.
    return torch.nn.functional.normalize(wide / wide.abs().amax(dim=1, keepdim=True), dim=1)


def first_named(names: Sequence[str], x: Tensor, order: Tensor, most: int) -> Tensor:
    """Return the first rows in an order that have a direction and a name that none before has, int64 [at most most]."""
    directed = x.any(dim=1)
    chosen: dict[str, int] = {}
    for row in order.tolist():
        if len(chosen) == most:
            break
        if names[row] and directed[row]:
            chosen.setdefault(names[row], row)
    return torch.tensor(list(chosen.values()), dtype=torch.int64)


def _nearest(x: Tensor, queries: Tensor, k: int) -> list[list[tuple[int, float]]]:
    """Rows and cosines of the k nearest to each query."""
    unit = directions(x)
    found = []
    for rows in torch.split(queries, BLOCK_ROWS):
        cosines = unit[rows] @ unit.T
        cosines[torch.arange(len(rows)), rows] = torch.nan
        # Of rows of zeros, which are 0 / 0 by now, and of the query itself.
        cosines = cosines.nan_to_num(-torch.inf)
        values, nearest = cosines.topk(min(k, len(x)), dim=1)
        found += [
            [(row, cosine) for row, cosine in zip(*pair, strict=True) if cosine > -torch.inf]
            for pair in zip(nearest.tolist(), values.clamp(max=1).tolist(), strict=True)
        ]
    return found


def _named(names: Sequence[str], nearest: list[tuple[int, float]]) -> list[dict[str, Any]]:
    return [{"name": names[row], "cosine": cosine} for row, cosine in nearest]


def look_up(lookup_id: str, settings: Settings, device: str) -> Sequence[Job]:
    """Write the neighbors of the named row into the row of the look-up; on the CPU."""
    return answer(Lookup, lookup_id, settings, _look_up)


def _look_up(asked: ResultJob[Lookup]) -> None:
    asked.check(current=asked.row.is_of(asked.embedding))
    results = _neighbours(open_embedding(asked.embedding, asked.settings), asked.row.name)
    with asked.sessions.begin() as session:
        asked.fill(session, results=results)


class Nearest:
    """The k rows nearest by cosine to one row, of rows that are seen block by block."""

    def __init__(self, query: Tensor, place: int, k: int) -> None:
        self._query = directions(query[None])[0]
        self._place = place
        self._cosines = torch.empty(0, dtype=self._query.dtype)
        self._places = np.empty(0, np.int64)
        self._k = k

    def update(self, x: Tensor, places: NDArray[np.int64]) -> None:
        """See rows [m, d] and their places in the file [m]; rows of zeros have no direction and are passed over."""
        cosines = directions(x) @ self._query
        cosines[torch.from_numpy(places == self._place)] = torch.nan
        cosines = torch.cat([self._cosines, cosines.nan_to_num(-torch.inf)])
        values, order = cosines.topk(min(self._k, len(cosines)))
        there = values > -torch.inf
        self._cosines = values[there]
        self._places = np.concatenate([self._places, places])[order[there].numpy()]

    def found(self) -> list[tuple[int, float]]:
        """Return places and cosines, nearest first."""
        return list(zip(self._places.tolist(), self._cosines.clamp(max=1).tolist(), strict=True))


def find_name(names: Iterable[str], wanted: str) -> int | None:
    """Return the place of the first name that is the wanted one, else of the first that differs by case alone."""
    folded, alike = wanted.casefold(), None
    for place, name in enumerate(names):
        if name == wanted:
            return place
        if alike is None and name.casefold() == folded:
            alike = place
    return alike


def _neighbours(matrix: Matrix, wanted: str) -> dict[str, Any]:
    """What ``Lookup.results`` holds."""
    annotation = matrix.selection.names
    place = None if annotation is None else find_name(matrix.contents.values(annotation), wanted)
    if place is None:
        raise InvalidError(f"No row is named {wanted!r}.")
    query, parameters = _vector(matrix, place, wanted), report_parameters(matrix.d)
    fitted = _fitted(matrix, parameters)
    sides = [Nearest(query, place, K), Nearest(fitted.apply(query[None])[0], place, K)]
    n = 0
    for kept, places, _ in kept_rows(matrix):
        n += len(kept)
        for side, x in zip(sides, (kept, fitted.apply(kept)), strict=True):
            side.update(x, places)
    nearest = [side.found() for side in sides]
    shown = sorted({place, *(row for side in nearest for row, _ in side)})
    names = dict(zip(shown, values_of(matrix, annotation, torch.tensor(shown)) or [], strict=True))
    before, after = ([{"name": names[row], "cosine": cosine} for row, cosine in side] for side in nearest)
    return {
        "k": K,
        "rows": n,
        "row": place,
        "method": REPORT_METHOD,
        "parameters": parameters,
        "of": [{"name": names[place], "before": before, "after": after}],
    }


def _fitted(matrix: Matrix, parameters: dict[str, Any]) -> Fitted:
    """The report's method, fitted on the rows that the report fits it on."""
    points, _ = draw_rows(matrix, SAMPLE_SEED)
    try:
        return fit(REPORT_METHOD, points, **parameters)
    except ValueError as error:
        raise InvalidError(str(error)) from error


def _vector(matrix: Matrix, place: int, name: str) -> Tensor:
    for kept, places, _ in kept_rows(matrix):
        if len(found := np.flatnonzero(places == place)):
            vector: Tensor = kept[int(found[0])].clone()
            if not vector.any():
                raise InvalidError(f"The row named {name!r} holds zeros alone, so it has no direction.")
            return vector
    raise InvalidError(f"The row named {name!r} holds NaN or infinity, so it has no neighbors.")
