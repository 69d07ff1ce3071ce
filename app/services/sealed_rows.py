"""Sealed test scores and openings that leave with an experiment, sealed as they were."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from sqlalchemy import select

from app.archive.members import OPENINGS, SEALED_PREDICTIONS, SEALED_SCORES
from app.archive.prediction_records import parts
from app.archive.sealed_records import OpeningRecord
from app.context import Context
from app.db.models import Experiment, Opening, Run, SealedScore, Split
from app.db.predictions import read_predictions

Member = tuple[str, Iterable[dict[str, Any]]]


def sealed_members(context: Context, experiment: Experiment) -> Iterator[Member]:
    """Yield the members of an archive that hold what is sealed, with their records; none where nothing is."""
    with context.sessions() as session:
        scores = session.scalars(
            select(SealedScore).join(Run).where(Run.experiment_id == experiment.id).order_by(Run.position)
        ).all()
        openings = session.scalars(
            select(Opening).where(Opening.experiment_id == experiment.id).order_by(Opening.number)
        ).all()
    if scores:
        yield SEALED_SCORES, map(_score, scores)
        yield SEALED_PREDICTIONS, _predictions(context, [score.run_id for score in scores])
    if openings:
        yield OPENINGS, map(_opening, openings)


def _predictions(context: Context, run_ids: Sequence[str]) -> Iterator[dict[str, Any]]:
    with context.sessions() as session:
        for run_id in run_ids:
            for found in read_predictions(session, [run_id], Split.TEST).values():
                yield from parts(run_id, found, Split.TEST)


def _score(row: SealedScore) -> dict[str, Any]:
    return {
        "run": row.run_id,
        "metrics": row.metrics,
        "reasons": row.reasons,
        "n": row.n,
        "rows_sha256": row.rows_sha256,
    }


def _opening(row: Opening) -> dict[str, Any]:
    columns = {name: getattr(row, name) for name in OpeningRecord.model_fields}
    return {**columns, "at": row.at.isoformat()}
