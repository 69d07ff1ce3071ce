"""The row of a finished run: its numbers, its notes, its figures, its predictions, and the model that it keeps."""

from contextlib import ExitStack
from pathlib import Path
from typing import Any

from sqlalchemy.orm import Session

from app.db.divergence import divergence_words, find_divergence
from app.db.models import Run, RunFigure, RunStatus, Split
from app.db.predictions import write_predictions
from app.db.types import utcnow
from app.settings import Settings
from app.storage import open_storage
from app.storage.ledger import Ledger
from workers.files import keeping
from workers.finetune.evaluation import Evaluation
from workers.finetune.folder import RunFolder
from workers.finetune.penalties import note_of_silence
from workers.finetune.progress import Progress
from workers.finetune.sealed import Sealed


def finish(
    evaluation: Evaluation,
    model: Path | None,
    settings: Settings,
    folder: RunFolder,
    progress: Progress,
    sealed: Sealed | None,
) -> None:
    """Finish the run; where a model is to be kept, store it and finish the run, or neither."""
    if model is None:
        with progress.sessions.begin() as session:
            _write(session, folder, progress, evaluation, sealed)
        return
    ledger = Ledger(progress.sessions, open_storage(settings))
    with ExitStack() as opened, keeping(ledger) as keep:
        kept = keep(lambda: opened.enter_context(model.open("rb")))
        with ledger.recording(kept) as session:
            _write(session, folder, progress, evaluation, sealed, model_sha256=kept.sha256)


def _write(
    session: Session,
    folder: RunFolder,
    progress: Progress,
    evaluation: Evaluation,
    sealed: Sealed | None,
    **values: Any,
) -> None:
    run = session.get_one(Run, progress.run_id)
    silent = note_of_silence([step.penalty for step in run.steps if step.penalty is not None])
    penalised = bool(run.config.weights)
    divergence = find_divergence([step.task_loss for step in run.steps if step.step], evaluation.untrained_loss)
    told = [
        silent if penalised else None,
        None if divergence is None else divergence_words(divergence),
        *evaluation.notes,
    ]
    results = evaluation.results.with_divergence(divergence)
    progress.write(
        session,
        status=RunStatus.FINISHED,
        phase=None,
        phase_done=0,
        phase_total=None,
        error=None,
        finished_at=utcnow(),
        performance=evaluation.performance.value,
        performance_reason=evaluation.performance.reason,
        isoscore_star=evaluation.isoscore_star.value,
        isoscore_star_reason=evaluation.isoscore_star.reason,
        results=results,
        learning=results.learning,
        notes=[*run.notes, *(note for note in told if note)],
        log=folder.log.tail(),
        **values,
    )
    if evaluation.predictions is not None:
        write_predictions(session, progress.run_id, Split.VALIDATION, evaluation.predictions)
    for slug, data in evaluation.figures.items():
        session.merge(RunFigure(run_id=progress.run_id, slug=slug, data=data))
    if sealed is not None:
        sealed.write(session, progress.run_id)
