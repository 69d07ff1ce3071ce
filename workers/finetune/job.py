"""The fine-tune job: the row of a queued or interrupted run in, the row of a finished one out."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import update
from transformers import PrinterCallback, TrainerState
from transformers.trainer import TRAINER_STATE_NAME

from app.db.config import RunConfig
from app.db.models import UNFINISHED, Dataset, Phase, Run, RunStatus
from app.db.penalty import Regularizer
from app.db.session import Sessions
from app.db.types import utcnow
from app.queue import Job
from app.settings import Settings
from workers.device import choose_device
from workers.environment import describe_environment
from workers.failure import record
from workers.finetune.checkpoint import CheckpointCallback
from workers.finetune.data import describe_rows, load_columns
from workers.finetune.evaluation import Evaluation, evaluate
from workers.finetune.folder import RunFolder, step_of, sweep
from workers.finetune.metrics import MetricsCallback, Probe, rows_apart
from workers.finetune.model import load_model
from workers.finetune.penalties import make_penalties
from workers.finetune.progress import Progress, RunStoppedError
from workers.finetune.shrinkage import ShrinkageCallback
from workers.finetune.tally import Tally
from workers.finetune.tasks import TASKS
from workers.finetune.trainer import IsotropyTrainer, optimizer, training_arguments
from workers.models import be_quiet, find_source, longest_input
from workers.sessions import job_sessions
from workers.slot import slot_name


class Order(NamedTuple):
    """What a run's row asks for."""

    config: RunConfig
    dataset: Dataset
    revision: str | None
    """Of the model on the Hub, where an interrupted run has found it out already."""


def fine_tune(run_id: str, settings: Settings, device: str) -> Sequence[Job]:
    """Train and evaluate a run, going on from its last checkpoint if it has one.

    A run that is final, gone or another worker's is left as it is. One killed at any moment and called again on the
    same device ends with the numbers of a run that was never killed.
    """
    sessions = job_sessions(settings)
    sweep(settings, sessions)
    folder = RunFolder(settings, run_id)
    slot = slot_name(settings, device)
    row = update(Run).where(Run.id == run_id, Run.status.in_(UNFINISHED), Run.worker == slot)
    with folder.locked():
        try:
            if (order := _begin(sessions, run_id, slot)) is not None:
                _work(order, Progress(sessions, run_id, slot), folder, settings, device)
        except RunStoppedError:
            pass
        except Exception as error:  # noqa: BLE001 - whatever it is belongs into the row, not into a retry
            record(error, sessions, row, status=RunStatus.FAILED, finished_at=utcnow())
        if _is_over(sessions, run_id):
            folder.remove()
    return ()


def _begin(sessions: Sessions, run_id: str, slot: str) -> Order | None:
    """Set the run to running at this worker and return what it asks for; None if nobody waits for it here."""
    with sessions.begin() as session:
        run = session.get(Run, run_id, with_for_update=True)
        if run is None or run.status.final or run.worker not in (None, slot):
            return None
        run.worker = slot
        run.status, run.phase, run.phase_done, run.phase_total = RunStatus.RUNNING, Phase.LOADING, 0, None
        run.started_at = run.started_at or utcnow()
        revision = (run.environment or {}).get("model", {}).get("revision")
        return Order(RunConfig.model_validate(run.config), run.experiment.dataset, revision)


def _work(order: Order, progress: Progress, folder: RunFolder, settings: Settings, device: str) -> None:
    be_quiet()
    choose_device(device)
    config = order.config
    task = TASKS[config.task](config)
    columns = load_columns(order.dataset, config, settings)
    source = find_source(config.model, settings, order.revision)
    model, tokenizer = load_model(source, task)
    max_length = longest_input(model, tokenizer, config.max_length)
    train, validation = (task.encode(part, tokenizer, max_length) for part in columns)

    tally = Tally()
    penalties = make_penalties(config, model)
    arguments = training_arguments(config, folder.path, device)
    trainer = IsotropyTrainer(
        model=model,
        args=arguments,
        train_dataset=train.dataset,
        data_collator=train.collate,
        optimizer_cls_and_kwargs=optimizer(config, arguments),
        tally=tally,
        penalties=penalties,
    )
    trainer.remove_callback(PrinterCallback)
    with progress.sessions.begin() as session:
        environment = describe_environment(source, trainer.args.device, max_length)
        progress.write(session, environment=environment | {"dataset": describe_rows(order.dataset)})

    if penalties is not None and (istar := penalties.shrunk) is not None:
        view = penalties.views[Regularizer.ISTAR]
        trainer.add_callback(ShrinkageCallback(istar, view, model, train, config, progress))
    tokens_per_step = config.accumulation * config.batch_size * float(train.tokens.mean())
    trainer.add_callback(MetricsCallback(tally, Probe(model, validation, config), tokens_per_step, progress))
    saver = CheckpointCallback(folder, settings.checkpoint_seconds, tally, penalties, progress)
    trainer.add_callback(saver)
    checkpoint = folder.last_checkpoint()
    if checkpoint is not None and not _is_reached(checkpoint, progress):
        folder.clear()
        checkpoint = None
    if checkpoint is not None:
        saver.restore(checkpoint)
    trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint is not None else None)
    _finish(progress, evaluate(model, train, validation, task, progress))


def _is_reached(checkpoint: Path, progress: Progress) -> bool:
    state = TrainerState.load_from_json(str(checkpoint / TRAINER_STATE_NAME))
    return progress.reaches(step_of(checkpoint), rows_apart(state.max_steps))


def _finish(progress: Progress, evaluation: Evaluation) -> None:
    with progress.sessions.begin() as session:
        progress.write(
            session,
            status=RunStatus.FINISHED,
            phase=None,
            phase_done=0,
            phase_total=None,
            error=None,
            finished_at=utcnow(),
            performance=evaluation.performance,
            isoscore_star=evaluation.isoscore_star.value,
            isoscore_star_reason=evaluation.isoscore_star.reason,
            results=evaluation.results,
        )


def _is_over(sessions: Sessions, run_id: str) -> bool:
    with sessions() as session:
        run = session.get(Run, run_id)
        return run is None or run.status.final
