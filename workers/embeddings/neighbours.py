"""Nearest neighbors of a sample, of one row by its name and of a new text, among all: the look-up job."""

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
from isotropy.catalog import METHODS, Similarity
from isotropy.cloud import Cloud
from isotropy.points import at_least_float32
from isotropy.postprocess.fitted import Fitted
from isotropy.postprocess.methods import fit
from isotropy.rows import kept_rows
from workers.embeddings.encoder import encode_alike
from workers.embeddings.inspection import open_embedding
from workers.job_rows import ResultJob, answer

K = 8
REPORT_QUERIES = 200
"""Names that can be looked up in a report: some 230 kB, of which no other part of the page is made."""
REPORT_METHOD = "all_but_the_top"
BLOCK_ROWS = 64
NO_ROW = -1


def named_neighbours(
    names: Sequence[str],
    before: Tensor,
    after: Tensor,
    queries: Tensor,
    k: int = K,
    similarity: Similarity = Similarity.COSINE,
) -> list[dict[str, Any]]:
    """Return the k rows nearest to each of some rows, before and after.

    Args:
        names: of the rows, n of them.
        before: [n, d] floating.
        after: the same rows mapped, [n, any].
        queries: rows to look up, int64 [m].
        k: neighbors of each; fewer where there are fewer rows.
        similarity: by which they are near.

    Returns:
        One ``{"name", "before": [{"name", "cosine"}], "after": [...]}`` a query, nearest first; by another similarity
        its name stands for "cosine". A row is not its own neighbor. By cosine rows of zeros, which have no direction,
        are nobody's neighbors and have none.

    """
    sides = [_nearest(x, queries, k, similarity) for x in (before, after)]
    return [
        {
            "name": names[query],
            "before": _named(names, first, similarity),
            "after": _named(names, second, similarity),
        }
        for query, first, second in zip(queries.tolist(), *sides, strict=True)
    ]


def neighbours_data(
    cloud: Cloud, names: Sequence[str] | None, seed: int, similarity: Similarity = Similarity.COSINE
) -> dict[str, Any] | None:
    """Return the neighbors of a report: of some named rows as they are, and less mean and top components.

    Args:
        cloud: the points; neighbors are sought among ``cloud.pairs``, on which All-but-the-Top is fitted too.
        names: of the rows of ``cloud.pairs``; None where they have none.
        seed: draws the rows that are looked up.
        similarity: by which rows are near.

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
    if similarity is not Similarity.COSINE:
        x, after = x * cloud.unit, after * cloud.unit
    of = named_neighbours(own, x, after, queries, similarity=similarity)
    told = {"k": K, "rows": len(x), "method": REPORT_METHOD, "parameters": parameters, "of": of}
    return told | {"similarity": similarity.value}


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


def _prepared(x: Tensor, similarity: Similarity) -> Tensor:
    """Return rows [n, d] as ``_nearness`` takes them."""
    return directions(x) if similarity is Similarity.COSINE else x.double()


def _nearness(queries: Tensor, x: Tensor, similarity: Similarity) -> Tensor:
    """Return how near rows [n, d] are to queries [q, d], both ``_prepared``: [q, n], the greater the nearer."""
    if similarity is Similarity.EUCLIDEAN:
        return -torch.cdist(queries, x, compute_mode="donot_use_mm_for_euclid_dist")
    return queries @ x.T


def _shown(nearness: Tensor, similarity: Similarity) -> list[Any]:
    """Return the cosines, products or distances that a list shows."""
    if similarity is Similarity.EUCLIDEAN:
        nearness = -nearness
    shown: list[Any] = (nearness.clamp(max=1) if similarity is Similarity.COSINE else nearness).tolist()
    return shown


def _nearest(x: Tensor, queries: Tensor, k: int, similarity: Similarity) -> list[list[tuple[int, float]]]:
    """Return rows and what is shown of the k nearest to each query."""
    prepared = _prepared(x, similarity)
    found = []
    for rows in torch.split(queries, BLOCK_ROWS):
        near = _nearness(prepared[rows], prepared, similarity)
        near[torch.arange(len(rows)), rows] = torch.nan
        # Of rows of zeros, whose cosines are 0 / 0 by now, and of the query itself.
        near = near.nan_to_num(-torch.inf)
        values, nearest = near.topk(min(k, len(x)), dim=1)
        there = (values > -torch.inf).sum(1).tolist()
        told = zip(nearest.tolist(), _shown(values, similarity), there, strict=True)
        found += [list(zip(at[:count], shown[:count], strict=True)) for at, shown, count in told]
    return found


def _named(
    names: Sequence[str] | dict[int, str], nearest: list[tuple[int, float]], similarity: Similarity
) -> list[dict[str, Any]]:
    return [{"name": names[row], similarity.value: shown} for row, shown in nearest]


def look_up(lookup_id: str, settings: Settings, device: str) -> Sequence[Job]:
    """Write the neighbors of the named row into the row of the look-up; on the CPU."""
    return answer(Lookup, lookup_id, settings, _look_up)


def _look_up(asked: ResultJob[Lookup]) -> None:
    asked.check(current=asked.row.is_of(asked.embedding))
    matrix = open_embedding(asked.embedding, asked.settings)
    if asked.row.is_text_of(asked.embedding):
        vector = encode_alike(asked.row.name, asked.embedding.provenance or {}, asked.settings)
        results = _near_text(matrix, asked.row.name, vector)
    else:
        results = _neighbours(matrix, asked.row.name)
    with asked.sessions.begin() as session:
        asked.fill(session, results=results)


class Nearest:
    """The k rows nearest to one row, of rows that are seen block by block."""

    def __init__(self, query: Tensor, place: int, k: int, similarity: Similarity = Similarity.COSINE) -> None:
        self._query = _prepared(query[None], similarity)
        self._place = place
        self._nearness = torch.empty(0, dtype=self._query.dtype)
        self._places = np.empty(0, np.int64)
        self._k = k
        self._similarity = similarity

    def update(self, x: Tensor, places: NDArray[np.int64]) -> None:
        """See rows [m, d] and their places in the file [m]; by cosine rows of zeros are passed over."""
        near = _nearness(self._query, _prepared(x, self._similarity), self._similarity)[0]
        near[torch.from_numpy(places == self._place)] = torch.nan
        near = torch.cat([self._nearness, near.nan_to_num(-torch.inf)])
        values, order = near.topk(min(self._k, len(near)))
        there = values > -torch.inf
        self._nearness = values[there]
        self._places = np.concatenate([self._places, places])[order[there].numpy()]

    def found(self) -> list[tuple[int, float]]:
        """Return places and cosines, products or distances, nearest first."""
        return list(zip(self._places.tolist(), _shown(self._nearness, self._similarity), strict=True))


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
    query = _vector(matrix, place, wanted)
    if matrix.selection.lists_by is Similarity.COSINE and not query.any():
        raise InvalidError(f"The row named {wanted!r} holds zeros alone, so it has no direction.")
    rows, sides = _nearest_of_all(matrix, query, place)
    names = _names_of(matrix, {place, *(row for side in sides for row, _ in side)})
    before, after = (_named(names, side, matrix.selection.lists_by) for side in sides)
    return _results(matrix, rows, place, {"name": names[place], "before": before, "after": after})


def _near_text(matrix: Matrix, text: str, vector: Tensor) -> dict[str, Any]:
    """What ``Lookup.results`` holds of a text."""
    if len(vector) != matrix.d:
        raise InvalidError(f"The rows have {matrix.d:,} dimensions, the text {len(vector):,}. Encode the texts again.")
    if not vector.any():
        raise InvalidError("The text is encoded as zeros alone, so it has no direction.")
    rows, sides = _nearest_of_all(matrix, vector, NO_ROW)
    names = _names_of(matrix, {row for side in sides for row, _ in side})
    before, after = (
        [
            told | {"row": row}
            for told, (row, _) in zip(_named(names, side, matrix.selection.lists_by), side, strict=True)
        ]
        for side in sides
    )
    return _results(matrix, rows, None, {"name": text, "before": before, "after": after})


def _nearest_of_all(matrix: Matrix, query: Tensor, place: int) -> tuple[int, list[list[tuple[int, float]]]]:
    """Return how many rows were searched, and the nearest to a vector, as the rows are and after the report's method.

    ``place`` is the row that is not its own neighbor, ``NO_ROW`` of a vector that is none.
    """
    fitted = _fitted(matrix, report_parameters(matrix.d))
    sides = [Nearest(one, place, K, matrix.selection.lists_by) for one in (query, fitted.apply(query[None])[0])]
    n = 0
    for kept, places, _ in kept_rows(matrix):
        n += len(kept)
        for side, x in zip(sides, (kept, fitted.apply(kept)), strict=True):
            side.update(x, places)
    return n, [side.found() for side in sides]


def _names_of(matrix: Matrix, rows: set[int]) -> dict[int, str]:
    shown = sorted(rows)
    names = values_of(matrix, matrix.selection.names, torch.tensor(shown))
    return dict(zip(shown, names or [], strict=True))


def _results(matrix: Matrix, rows: int, place: int | None, found: dict[str, Any]) -> dict[str, Any]:
    return {
        "k": K,
        "similarity": matrix.selection.lists_by.value,
        "rows": rows,
        "row": place,
        "method": REPORT_METHOD,
        "parameters": report_parameters(matrix.d),
        "of": [found],
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
            return vector
    raise InvalidError(f"The row named {name!r} holds NaN or infinity, so it has no neighbors.")
