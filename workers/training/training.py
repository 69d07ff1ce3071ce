"""Train one run: load model and rows, resume from the last checkpoint, evaluate, store the results."""

import logging
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from transformers import PreTrainedModel, PreTrainedTokenizerBase, PrinterCallback, TrainerCallback, TrainerState
from transformers.trainer import TRAINER_STATE_NAME

from app.core.settings import Settings
from app.db.models import Run
from isoscope.core.formatting import prefixed_errors
from isotropy.catalog import Regularizer
from workers.failure import is_out_of_memory
from workers.models import (
    ModelSource,
    describe_environment,
    find_source,
    hide_other_gpus,
    max_input_length,
    silence_libraries,
)
from workers.training.checkpoints import CheckpointCallback, SelectionCallback, restore_loss_state, split_selection_rows
from workers.training.data import describe_rows, load_columns, load_test_columns
from workers.training.ddp_sync import ProcessRank, SharedDecisions, SharedTally
from workers.training.evaluation import HashedRows, evaluate, hash_rows, score_test_rows
from workers.training.finish import finish_run, format_model_card, zip_model
from workers.training.folder import RunFolder, step_of
from workers.training.inference import TokenizedRows
from workers.training.metrics import MetricsCallback, Probe, StepClock, Tally, logging_interval
from workers.training.penalties import ShrinkageCallback, make_penalties
from workers.training.progress import Progress
from workers.training.run_spec import OutOfMemoryError, RunSpec, batch_plan
from workers.training.tasks import TASKS, Task
from workers.training.trainer import IsotropyTrainer, choose_optimizer, load_model, make_training_arguments

logger = logging.getLogger(__name__)

SINGLE_PROCESS = ProcessRank()
NO_CHECKPOINT = -1  # sent to the other processes in place of a step


@dataclass(frozen=True)
class LoadedRun:
    """A run's model and tokenized rows."""

    source: ModelSource
    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    max_length: int
    task: Task
    train: TokenizedRows
    validation: TokenizedRows
    validation_positions: NDArray[np.int64]
    """[n], the positions of the validation examples in their split."""
    selection: TokenizedRows | None
    """The rows that choose the best weights; None if the last weights are kept."""
    test: HashedRows | None
    """The test rows; None for a data set without a test split."""


def train(
    spec: RunSpec,
    progress: Progress,
    folder: RunFolder,
    settings: Settings,
    device: str,
    process_rank: ProcessRank = SINGLE_PROCESS,
) -> None:
    """Train a run; the first process evaluates and finishes it. Raises OutOfMemoryError, RunStoppedError."""
    silence_libraries()
    hide_other_gpus(device)
    loaded = _load(spec, settings)
    config, model = spec.config, loaded.model
    tally = Tally()
    penalties = make_penalties(config, model)
    arguments = make_training_arguments(config, folder.path, device)
    trainer = IsotropyTrainer(
        model=model,
        args=arguments,
        train_dataset=loaded.train.dataset,
        data_collator=loaded.train.collate,
        optimizer_cls_and_kwargs=choose_optimizer(config, arguments),
        tally=tally,
        penalties=penalties,
    )
    trainer.remove_callback(PrinterCallback)
    process_rank.reseed_unless_first(config.seed)
    environment = describe_environment(loaded.source, trainer.args.device, loaded.max_length)
    probe = Probe(model, loaded.validation, config)
    environment |= {"dataset": describe_rows(spec.dataset), "batches": batch_plan(config), "probe": probe.point_counts}
    progress.write_and_commit(environment=environment)
    checkpoint = _choose_checkpoint(folder, progress, process_rank)
    if process_rank.is_first:
        start_text = "starts" if checkpoint is None else f"resumes from step {step_of(checkpoint)}"
        logger.info("%s is loaded on %s; training %s", config.model, trainer.args.device, start_text)
    if checkpoint is not None:
        restore_loss_state(checkpoint, tally, penalties)
    selection_callback, metrics_callback = None, None
    callbacks: list[TrainerCallback] = []
    if penalties is not None and (istar := penalties.shrinking_istar) is not None:
        selector = penalties.selectors[Regularizer.ISTAR]
        callbacks.append(ShrinkageCallback(istar, selector, model, loaded.train, config, progress))
    if process_rank.is_first:
        if loaded.selection is not None:
            selection_callback = SelectionCallback(folder, model, loaded.selection, loaded.task, progress)
            selection_callback.restore(checkpoint)
            callbacks.append(selection_callback)
        tokens_per_step = batch_plan(config)["rows_per_step"] * float(loaded.train.token_counts.mean())
        metrics_callback = MetricsCallback(tally, probe, tokens_per_step, progress)
        callbacks += [
            StepClock(loaded.train.token_counts, config, environment, progress),
            metrics_callback,
            CheckpointCallback(folder, settings.checkpoint_seconds, tally, penalties, selection_callback, progress),
        ]
    callbacks.insert(0, SharedTally(process_rank, tally, config, metrics_callback))
    callbacks.append(SharedDecisions(process_rank))
    for callback in callbacks:
        trainer.add_callback(callback)
    with _handle_errors(progress):
        trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint is not None else None)
        if not process_rank.is_first:
            return
        selection = None if selection_callback is None else selection_callback.load_selected_weights()
        evaluation = evaluate(
            model, loaded.train, loaded.validation, loaded.task, progress, loaded.validation_positions
        )
        sealed = None if loaded.test is None else score_test_rows(model, loaded.test, loaded.task, progress)
    if selection is not None:
        evaluation.results.selection = selection
    model_zip = None
    if config.export:
        model_zip = zip_model(model, loaded.tokenizer, format_model_card(spec, environment, evaluation), folder)
    finish_run(evaluation, model_zip, settings, folder, progress, sealed)


def _load(spec: RunSpec, settings: Settings) -> LoadedRun:
    config = spec.config
    task = TASKS[config.task](config)
    train_part, validation_part = load_columns(spec.dataset, config, settings)
    train_columns = train_part.columns
    source = find_source(config.model, settings, spec.revision)
    model, tokenizer = load_model(source, task)
    max_length = max_input_length(model, tokenizer, config.max_length)
    selection = None
    if config.selects_during_training:
        train_columns, selection_columns = split_selection_rows(train_columns, validation_part.columns, config)
        selection = task.encode(selection_columns, tokenizer, max_length)
    train_rows = task.encode(train_columns, tokenizer, max_length, training=True)
    validation = task.encode(validation_part.columns, tokenizer, max_length)
    test = None
    test_columns = load_test_columns(spec.dataset, config, settings)
    if test_columns is not None:
        # Encode test rows before training, so that an unknown label fails the run at once.
        with prefixed_errors(spec.dataset.test_filename or "The test split"):
            test_rows = task.encode(test_columns, tokenizer, max_length)
            test = HashedRows(test_rows, hash_rows(test_columns, config.text_columns, config.label_column))
    return LoadedRun(
        source, model, tokenizer, max_length, task, train_rows, validation, validation_part.positions, selection, test
    )


def _choose_checkpoint(folder: RunFolder, progress: Progress, process_rank: ProcessRank) -> Path | None:
    """Return the newest sound checkpoint, by the first process; None without one, or if logged steps end before it."""
    checkpoint, damages = folder.keep_sound_checkpoint() if process_rank.is_first else (None, [])
    if damages:
        restart = "started again from step 0" if checkpoint is None else f"resumed from step {step_of(checkpoint):,}"
        notes = [
            f"The checkpoint of step {step:,} was damaged on the disk ({damage}) and was dropped. Training {restart}."
            for step, damage in damages
        ]
        for note in notes:
            logger.warning(note)
        with progress.sessions.begin() as session:
            run = session.get_one(Run, progress.run_id)
            progress.write(session, notes=[*run.notes, *notes])
    if checkpoint is not None:
        state = TrainerState.load_from_json(str(checkpoint / TRAINER_STATE_NAME))
        if not progress.has_logged_up_to(step_of(checkpoint), logging_interval(state.max_steps)):
            folder.remove_checkpoints()
            checkpoint = None
    (step,) = process_rank.broadcast(NO_CHECKPOINT if checkpoint is None else step_of(checkpoint))
    return None if step == NO_CHECKPOINT else folder.checkpoint(step)


@contextmanager
def _handle_errors(progress: Progress) -> Iterator[None]:
    """After an error, write logged steps that wait, and raise it, as OutOfMemoryError if memory ran out."""
    try:
        yield
    except Exception as error:
        if is_out_of_memory(error):
            traceback.clear_frames(error.__traceback__)  # they hold the tensors that fill the memory
        progress.write_and_commit()
        if is_out_of_memory(error):
            raise OutOfMemoryError(str(error)) from error
        raise
