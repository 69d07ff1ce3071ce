"""The job that says how alike two embeddings of the same rows are."""

from collections.abc import Sequence
from typing import Any

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
from isotropy.alignment import ROWS, alignment
from isotropy.dealing import Slices, group_numbers
from isotropy.jackknife import BLOCKS
from isotropy.neighbours import equal_rows
from isotropy.score import Score
from isotropy.tasks.parts import groups_of
from workers.embeddings.inspection import open_embedding
from workers.job_rows import ResultJob, answer

SEED = 0


def align(alignment_id: str, settings: Settings, device: str) -> Sequence[Job]:
    """Write how alike two embeddings are into their row; on the CPU."""
    return answer(Alignment, alignment_id, settings, _align)


def _align(asked: ResultJob[Alignment]) -> None:
    with asked.sessions() as session:
        other = session.get_one(Embedding, asked.row.other_id)
    first, second = (open_embedding(one, asked.settings) for one in (asked.embedding, other))
    results = results_of(first, second, asked.row.rows_by)
    with asked.sessions.begin() as session:
        asked.fill(session, results=results)


def results_of(first: Matrix, second: Matrix, rows_by: RowsBy) -> dict[str, Any]:
    """Return what ``Alignment.results`` holds.

    Raises:
        InvalidError: the two are to have the same rows in order, and have other numbers of them.

    """
    pairs = _pairs(first, second, rows_by)
    places = sampled(pairs, ROWS, SEED)
    x, y = rows_at(first, places), rows_at(second, [pairs[one] for one in places])
    both = x.isfinite().all(1) & y.isfinite().all(1)
    x, y, kept = x[both], y[both], torch.tensor(places, dtype=torch.int64)[both]
    there = torch.tensor([pairs[one] for one in kept.tolist()], dtype=torch.int64)
    scores = alignment(x, y, _blocks(_groups(first, x, kept), _groups(second, y, there)))
    return {
        "shared": len(pairs),
        "rows": len(x),
        "scores": {slug: _told(score) for slug, score in scores.items()},
    }


def _pairs(first: Matrix, second: Matrix, rows_by: RowsBy) -> dict[int, int]:
    if rows_by is RowsBy.NAME:
        return pairs_by_name(first, first.selection.names, second, second.selection.names)
    if rows_by is RowsBy.PLACE:
        return pairs_by_place(first, second)
    if first.n != second.n:
        raise InvalidError(f"Both need the same rows in order: there are {first.n:,} and {second.n:,}.")
    return {row: row for row in range(first.n)}


def _blocks(first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the block of each row: rows of one group of either embedding are dealt together."""
    numbers = groups_of([(("first", a), ("second", b)) for a, b in zip(first.tolist(), second.tolist(), strict=True)])
    return Slices(int(numbers.max(initial=-1)) + 1, BLOCKS).of(numbers)


def _groups(matrix: Matrix, x: Tensor, places: Tensor) -> NDArray[np.int64]:
    """Return the number of each row's group, those of equal rows where the embedding has none."""
    if (groups := values_of(matrix, matrix.selection.groups, places)) is not None:
        return group_numbers(groups)
    return equal_rows(x).numpy()


def _told(score: Score) -> dict[str, Any]:
    return {"value": score.value, "parts": list(score.parts), "reason": score.reason}
