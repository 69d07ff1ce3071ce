"""The look-up job: the nearest neighbours of one row among all rows of an embedding, found by its name."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from app.db.lookups import is_current
from app.db.models import Lookup
from app.db.postprocess import SEED
from app.queue import Job
from app.settings import Settings
from isoscope.core.errors import InvalidError
from isoscope.files.matrix import Matrix
from isoscope.rows import draw_rows, values_of
from isotropy.postprocess.fitted import Fitted
from isotropy.postprocess.methods import fit
from isotropy.rows import kept_rows
from workers.neighbours import REPORT_METHOD, K, directions, report_parameters
from workers.results import Asked, answer
from workers.upload import open_embedding


def look_up(lookup_id: str, settings: Settings, device: str) -> Sequence[Job]:
    """Write the neighbours of the named row into the row of the look-up; on the CPU."""
    return answer(Lookup, lookup_id, settings, _look_up)


def _look_up(asked: Asked[Lookup]) -> None:
    asked.check(current=is_current(asked.row, asked.embedding))
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
    points, _ = draw_rows(matrix, SEED)
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
