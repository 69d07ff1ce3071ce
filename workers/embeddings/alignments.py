"""The job that compares two embeddings of the same rows: how similar they are, and which rows moved."""

from functools import partial
from typing import Any

import torch
from torch import Tensor

from app.db.models import Alignment, Embedding, RowsBy
from isoscope.core.errors import InvalidError
from isoscope.files.ground_truth import NamedVectors, RowIds
from isoscope.files.matrix import Matrix
from isoscope.rows import match_by_name, match_by_position, read_rows, sample_rows, values_of
from isoscope.task_files import compression_task
from isotropy.alignment import ROWS, alignment, row_drift
from isotropy.catalog import Similarity
from isotropy.findings.nearest import NEAREST
from isotropy.neighbors import first_equal_rows
from isotropy.projection import NAME_CHARACTERS
from isotropy.rows import deal_slices, group_numbers
from isotropy.score import BLOCKS
from isotropy.tasks.judge import JudgingTask
from isotropy.tasks.parts import Codes, groups_of
from isotropy.tasks.upgrade import UpgradeTask, judge_upgrade
from workers.files import open_embedding
from workers.job_rows import ResultJob, run_result_job

SEED = 0
MAX_MOVED_ROWS = 50_000
"""Maximum number of rows whose moves are stored."""
MAX_NUMBERS = 2**24
"""Maximum count of numbers in these rows of an embedding, because several copies are in memory at once."""
TOO_FEW_ROWS = f"More than {NEAREST} shared rows are needed."


def compare_rows(
    first: Matrix, second: Matrix, rows_by: RowsBy, *, are_layers: bool = False
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the values of ``Alignment.results`` and ``Alignment.moved``.

    The scores are of the first ``ROWS`` sampled rows that both embeddings have. ``are_layers``: both are of one model.
    Raises InvalidError if rows are matched by order, and the embeddings differ in their number of rows.
    """
    if rows_by is RowsBy.NAME:
        pairs = match_by_name(first, first.selection.names, second, second.selection.names)
    elif rows_by is RowsBy.POSITION:
        pairs = match_by_position(first, second)
    elif first.n != second.n:
        raise InvalidError(f"Both need the same rows in order: there are {first.n:,} and {second.n:,}.")
    else:
        pairs = {row: row for row in range(first.n)}
    max_rows = max(ROWS, min(MAX_MOVED_ROWS, MAX_NUMBERS // max(first.d, second.d)))
    first_positions = sample_rows(pairs, max_rows, SEED)
    second_positions = [pairs[position] for position in first_positions]
    x, y = read_rows(first, first_positions), read_rows(second, second_positions)
    is_finite = x.isfinite().all(1) & y.isfinite().all(1)
    first_rows, second_rows = (torch.tensor(rows, dtype=torch.int64) for rows in (first_positions, second_positions))
    x, y, first_rows, second_rows = (values[is_finite] for values in (x, y, first_rows, second_rows))
    scored_x, scored_y = x[:ROWS], y[:ROWS]
    first_groups = [("first", group) for group in _number_groups(first, scored_x, first_rows[:ROWS])]
    second_groups = [("second", group) for group in _number_groups(second, scored_y, second_rows[:ROWS])]
    # Rows that share a group in either embedding go into the same block.
    groups = groups_of(list(zip(first_groups, second_groups, strict=True)))
    blocks = deal_slices(groups, int(groups.max(initial=-1)) + 1, BLOCKS)
    scores = {
        slug: {"value": score.value, "parts": list(score.parts), "reason": score.reason}
        for slug, score in alignment(scored_x, scored_y, blocks).items()
    }
    # Nobody upgrades from one layer of a model to another.
    upgrades = [] if are_layers else _judge_upgrades(scored_x, scored_y, groups, len(pairs))
    results = {"shared": len(pairs), "rows": len(scored_x), "scores": scores, "upgrades": upgrades}
    names = values_of(first, first.selection.names, first_rows) or values_of(
        second, second.selection.names, second_rows
    )
    moves = _measure_moves(x, y) | {"names": names and [name[:NAME_CHARACTERS] for name in names]}
    moves |= {
        "rows": first.file_positions(first_rows.numpy()).tolist(),
        "other_rows": second.file_positions(second_rows.numpy()).tolist(),
    }
    return results, moves


def _judge_upgrades(x: Tensor, y: Tensor, groups: Codes, n_shared: int) -> list[dict[str, Any]]:
    """Judge the upgrade from the model of x [n, d] to that of y [n, e] and the reverse; [] if neither can be judged."""
    row_ids, group_names = RowIds("", [str(row) for row in range(len(x))], None), [str(group) for group in groups]
    embeddings = (NamedVectors("", points.float().numpy(), row_ids, group_names, None) for points in (x, y))
    try:
        loaded_tasks = [compression_task(vectors, Similarity.COSINE, SEED) for vectors in embeddings]
        tasks = [JudgingTask(loaded.corpus, loaded.truth, seed=SEED) for loaded in loaded_tasks]
        upgrade_tasks = [
            UpgradeTask(old, new.corpus, new.truth.query_vectors, n_shared, unsampled_corpus=old.corpus[:0])
            for old, new in (tasks, tasks[::-1])
        ]
        return [judge_upgrade(upgrade_task)[0].to_dict() for upgrade_task in upgrade_tasks]
    except (InvalidError, ValueError):
        return []


def _measure_moves(x: Tensor, y: Tensor) -> dict[str, Any]:
    """Return how far each row of x and y has moved relative to the first ``ROWS``, as in ``Alignment.moved``."""
    references = min(ROWS, len(x))
    if references <= NEAREST:
        return {"references": 0, "kept": None, "residual": None, "reason": TOO_FEW_ROWS}
    drift = row_drift(x, y, references)
    residual = drift.residual
    return {
        "references": references,
        "kept": [round(value, 4) for value in drift.neighbors_kept.tolist()],
        "residual": None if residual is None else [float(f"{value:.5g}") for value in residual.tolist()],
        "reason": drift.reason,
    }


def _number_groups(matrix: Matrix, x: Tensor, positions: Tensor) -> list[int]:
    """Return each row's group number; without a column of groups, equal rows share a number."""
    groups = values_of(matrix, matrix.selection.groups, positions)
    numbers: list[int] = (first_equal_rows(x).numpy() if groups is None else group_numbers(groups)).tolist()
    return numbers


def _align(job: ResultJob[Alignment]) -> None:
    with job.sessions() as session:
        counterpart = session.get_one(Embedding, job.row.other_id)
    first, second = (open_embedding(embedding, job.settings) for embedding in (job.embedding, counterpart))
    are_layers = job.embedding.series is not None and job.embedding.series == counterpart.series
    results, moves = compare_rows(first, second, job.row.rows_by, are_layers=are_layers)
    with job.sessions.begin() as session:
        job.fill(session, results=results, moved=moves)


align = partial(run_result_job, Alignment, _align)
