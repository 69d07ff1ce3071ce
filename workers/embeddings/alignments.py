"""The job that says how alike two embeddings of the same rows are, and which rows moved."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from app.core.settings import Settings
from app.db.job_kinds import Job
from app.db.models import Alignment, Embedding, RowsBy
from isoscope.core.errors import InvalidError
from isoscope.files.matrix import Matrix
from isoscope.rows import pairs_by_name, pairs_by_place, rows_at, sampled, values_of
from isotropy.alignment import ROWS, alignment, row_drift
from isotropy.dealing import Slices, group_numbers
from isotropy.findings.nearest import NEAREST
from isotropy.jackknife import BLOCKS
from isotropy.neighbours import equal_rows
from isotropy.projection import NAME_CHARACTERS
from isotropy.score import Score
from isotropy.tasks.parts import groups_of
from workers.embeddings.inspection import open_embedding
from workers.job_rows import ResultJob, answer

SEED = 0
MOST_MOVED = 50_000
"""Maximum number of rows whose moves are stored."""
MOST_NUMBERS = 2**24
"""Numbers of these rows, of which several copies are held at once."""
FEW = f"It takes more than {NEAREST} rows that both have."


def align(alignment_id: str, settings: Settings, device: str) -> Sequence[Job]:
    """Write how alike two embeddings are into their row; on the CPU."""
    return answer(Alignment, alignment_id, settings, _align)


def _align(asked: ResultJob[Alignment]) -> None:
    with asked.sessions() as session:
        other = session.get_one(Embedding, asked.row.other_id)
    first, second = (open_embedding(one, asked.settings) for one in (asked.embedding, other))
    found = results_of(first, second, asked.row.rows_by)
    with asked.sessions.begin() as session:
        asked.fill(session, results=found.results, moved=found.moved)


class Found(NamedTuple):
    """What is written of two embeddings."""

    results: dict[str, Any]
    """As ``Alignment.results``."""
    moved: dict[str, Any]
    """As ``Alignment.moved``."""


def results_of(first: Matrix, second: Matrix, rows_by: RowsBy) -> Found:
    """Return how alike two embeddings are, and how far rows moved. The rows compared are the first of those.

    Raises:
        InvalidError: the two are to have the same rows in order, and have other numbers of them.

    """
    pairs = _pairs(first, second, rows_by)
    most = max(ROWS, min(MOST_MOVED, MOST_NUMBERS // max(first.d, second.d)))
    places = sampled(pairs, most, SEED)
    others = [pairs[one] for one in places]
    x, y = rows_at(first, places), rows_at(second, others)
    both = x.isfinite().all(1) & y.isfinite().all(1)
    here, there = (torch.tensor(rows, dtype=torch.int64) for rows in (places, others))
    x, y, here, there = (one[both] for one in (x, y, here, there))
    head = slice(min(ROWS, len(x)))
    groups = _groups(first, x[head], here[head]), _groups(second, y[head], there[head])
    scores = alignment(x[head], y[head], _blocks(*groups))
    results = {
        "shared": len(pairs),
        "rows": len(x[head]),
        "scores": {slug: _told(score) for slug, score in scores.items()},
    }
    names = values_of(first, first.selection.names, here) or values_of(second, second.selection.names, there)
    moved = _moved(x, y) | {"names": names and [one[:NAME_CHARACTERS] for one in names]}
    moved |= {"rows": first.in_file(here.numpy()).tolist(), "other_rows": second.in_file(there.numpy()).tolist()}
    return Found(results, moved)


def _moved(x: Tensor, y: Tensor) -> dict[str, Any]:
    references = min(ROWS, len(x))
    if references <= NEAREST:
        return {"references": 0, "kept": None, "residual": None, "reason": FEW}
    found = row_drift(x, y, references)
    residual = found.residual
    return {
        "references": references,
        "kept": [round(one, 4) for one in found.neighbors_kept.tolist()],
        "residual": None if residual is None else [float(f"{one:.5g}") for one in residual.tolist()],
        "reason": found.reason,
    }


def _pairs(first: Matrix, second: Matrix, rows_by: RowsBy) -> dict[int, int]:
    if rows_by is RowsBy.NAME:
        return pairs_by_name(first, first.selection.names, second, second.selection.names)
    if rows_by is RowsBy.POSITION:
        return pairs_by_place(first, second)
    if first.n != second.n:
        raise InvalidError(f"Both need the same rows in order: there are {first.n:,} and {second.n:,}.")
    return {row: row for row in range(first.n)}


def _blocks(first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the block of each row: rows of one group of either embedding are dealt together."""
    numbers = groups_of([(("first", a), ("second", b)) for a, b in zip(first.tolist(), second.tolist(), strict=True)])
    return Slices(int(numbers.max(initial=-1)) + 1, BLOCKS).blocks_of(numbers)


def _groups(matrix: Matrix, x: Tensor, places: Tensor) -> NDArray[np.int64]:
    """Return the number of each row's group, those of equal rows where the embedding has none."""
    if (groups := values_of(matrix, matrix.selection.groups, places)) is not None:
        return group_numbers(groups)
    return equal_rows(x).numpy()


def _told(score: Score) -> dict[str, Any]:
    return {"value": score.value, "parts": list(score.parts), "reason": score.reason}
