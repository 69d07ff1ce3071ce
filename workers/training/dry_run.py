"""The dry-run job: a few rows and steps of every kind that a sweep has, before it is launched."""

import gc
import math
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from sqlalchemy import Update, update
from transformers import PrinterCallback

from app.core.settings import Settings
from app.db.config import RunConfig
from app.db.job_kinds import Job
from app.db.models import Dataset, DryRun, ResultStatus
from app.db.run_results import DryRunResults, ShownRow, StepCosts, Token
from isoscope.files.span import read_span
from isoscope.hidden_states import depth, looking_at, width
from isotropy.catalog import Regularizer
from workers.failure import record
from workers.job_rows import job_sessions
from workers.models import be_quiet, choose_device, device_name, find_source, longest_input
from workers.training.checkpoints import divide
from workers.training.data import Columns, load_columns, n_rows, rows_of
from workers.training.ddp_launch import devices_of
from workers.training.ddp_sync import sharing_cores
from workers.training.inference import Rows, rows_at_once
from workers.training.metrics import PROBE_ROWS, Probe, Tally
from workers.training.penalties import Penalties, make_penalties
from workers.training.run_spec import batches_of
from workers.training.tasks import TASKS
from workers.training.timing import FinalCost, StepClock, seconds_of, time_measuring
from workers.training.trainer import IsotropyTrainer, load_model, optimizer, training_arguments

ROWS_SHOWN = 8
LONGEST_LABEL = 60
"""Characters of a label that is shown."""
TIMED_STEPS = 3
"""After a first one, in which memory is sought."""
DRAW_SEED = 0
"""Of the rows that are timed and looked at: not the first, which a file may have sorted by length."""


class Rehearsal:
    """A configuration with its model and some rows of its data set, in one process, however many are asked for."""

    def __init__(self, config: RunConfig, dataset: Dataset, settings: Settings, device: str) -> None:
        began = time.perf_counter()
        self.config = config
        self.settings = settings
        self.device = device
        self.task = TASKS[config.task](config)
        if config.processes > 1:
            devices_of(config, device)
        train, validating = load_columns(dataset, config, settings)
        self.columns, validation = train.columns, validating.columns
        self.n = n_rows(self.columns)
        if config.selects:
            self.columns, _ = divide(self.columns, validation, config)
        self.model, self.tokenizer = load_model(find_source(config.model, settings), self.task)
        self.max_length = longest_input(self.model, self.tokenizer, config.max_length)
        loaded = time.perf_counter()
        timed = _draw(self.columns, (1 + TIMED_STEPS) * config.batch_size * config.accumulation)
        self.rows = self._encode(timed, training=True)
        encoding = (time.perf_counter() - loaded) / n_rows(timed)
        self.n_validation, self.n_test = n_rows(validation), dataset.n_test or 0
        self.seconds_to_load = loaded - began + encoding * (self.n + self.n_validation + self.n_test)
        self.inputs_per_row = len(self.rows) / n_rows(timed)
        self.probe = Probe(self.model, self._encode(_draw(validation, PROBE_ROWS)), config)

    def shown(self) -> DryRunResults:
        """Return the first rows that are trained on as the model reads them, and its loss on them before any step."""
        first = rows_of(self.columns, range(min(ROWS_SHOWN, n_rows(self.columns))))
        rows = self._encode(first)
        with looking_at(self.model):
            batch = next(rows.batches(range(len(rows)), len(rows), self.model.device))
            loss = float(self.model(**batch)["loss"])
        special = set(self.tokenizer.all_special_ids)
        labels = [None if value is None else _short(str(value)) for value in first[self.config.label_column]]
        names = self.config.label_names
        return DryRunResults(
            rows=[
                ShownRow(
                    label=labels[place] if len(rows) == len(labels) else None,
                    tokens=[
                        Token(text=self.tokenizer.decode([number]), special=number in special)
                        for number in row["input_ids"]
                    ],
                )
                for place, row in enumerate(rows.dataset)
            ],
            label_names=names,
            loss=loss,
            loss_of_guessing=math.log(len(names)) if names else None,
            max_length=self.max_length,
            longest=int(self.rows.tokens.max()),
            n_cut=int((self.rows.tokens >= self.max_length).sum()),
            n_timed=len(self.rows),
            kinds=[],
        )

    def times(self, final: FinalCost) -> StepCosts:
        """Return what a step costs, and all else that a run does; ``final`` was timed before."""
        penalties = make_penalties(self.config, self.model)
        parameters = sum(weights.numel() for weights in self.model.parameters())
        with sharing_cores(self.config.processes):
            seconds_per_row = seconds_of(self._forward) / len(self.rows)
            seconds_per_look = seconds_of(self.probe.measures)
            seconds_per_step = self._train(penalties)
        return StepCosts(
            regularizers=sorted(self.config.weights),
            **final._asdict(),
            seconds_to_load=self.seconds_to_load,
            seconds_per_step=seconds_per_step,
            seconds_per_row=seconds_per_row,
            seconds_per_look=seconds_per_look,
            inputs_per_row=self.inputs_per_row,
            probe_rows=len(self.probe.indices),
            least_steps_apart=self.probe.least_steps_apart(
                batches_of(self.config)["rows_per_step"] * float(self.rows.tokens.mean())
            ),
            shrinkage_rows=self._shrinkage_rows(penalties),
            reference_rows=max(1, round(self._rows_of(self.config.shrinkage_points / depth(self.model)))),
            parameters=parameters,
            layers=depth(self.model),
            width=width(self.model),
            device="the CPU" if self.model.device.type == "cpu" else device_name(self.model.device),
        )

    def final_cost(self) -> FinalCost:
        """Return what the final measuring takes; to be asked for before ``times``, which trains a few steps."""
        n = round(self.n_validation * self.inputs_per_row)
        with sharing_cores(self.config.processes):
            return time_measuring(
                self.model, self.rows, self.probe.rows, n, self.task, self.settings, tested=self.n_test > 0
            )

    def _encode(self, columns: Columns, *, training: bool = False) -> Rows:
        return self.task.encode(columns, self.tokenizer, self.max_length, training=training)

    def _train(self, penalties: Penalties | None) -> float:
        """Seconds of a step, the median of those timed."""
        if penalties is not None and (istar := penalties.shrunk) is not None:
            istar.set_shrinkage(torch.eye(width(self.model)))  # a step towards any matrix takes as long
        config = self.config.model_copy(update={"epochs": None, "max_steps": 1 + TIMED_STEPS, "warmup": 0.0})
        clock = StepClock()
        with tempfile.TemporaryDirectory() as folder:
            arguments = training_arguments(config, Path(folder), self.device)
            trainer = IsotropyTrainer(
                model=self.model,
                args=arguments,
                train_dataset=self.rows.dataset,
                data_collator=self.rows.collate,
                optimizer_cls_and_kwargs=optimizer(config, arguments),
                tally=Tally(),
                penalties=penalties,
            )
            trainer.remove_callback(PrinterCallback)
            trainer.add_callback(clock)
            trainer.train()
        return statistics.median(np.diff(clock.ends).tolist())

    def _forward(self) -> None:
        order = self.rows.longest_first(np.arange(len(self.rows)))
        with looking_at(self.model):
            for batch in self.rows.batches(order, rows_at_once(self.config), self.model.device):
                self.model(**batch, output_hidden_states=True)

    def _shrinkage_rows(self, penalties: Penalties | None) -> int:
        """Rows that one pass for the shrinkage covariance would take of a file that has as many."""
        if penalties is None or penalties.shrunk is None:
            return 0
        view = penalties.views[Regularizer.ISTAR]
        of_a_layer = self.config.shrinkage_points / len(view.layers)
        return max(1, round(self._rows_of(of_a_layer) if view.pooling is None else of_a_layer))

    def _rows_of(self, tokens: float) -> float:
        """How many rows hold so many tokens."""
        return tokens / float(self.rows.tokens.mean())


def _draw(columns: Columns, wanted: int) -> Columns:
    """At most so many rows."""
    n = n_rows(columns)
    places = np.random.default_rng(DRAW_SEED).choice(n, min(n, wanted), replace=False)
    return rows_of(columns, places.tolist())


def _short(label: str) -> str:
    """A label as it is shown beside its row; of answers the text of the first."""
    span = read_span(label)
    text = span.texts[0] if span else label
    return text if len(text) <= LONGEST_LABEL else f"{text[:LONGEST_LABEL]}…"


def dry_run(dry_run_id: str, settings: Settings, device: str) -> Sequence[Job]:
    """Rehearse every configuration of a dry run; write what rows become, the first loss, and what runs take.

    All are timed twice, the second time in reverse order, after a first rehearsal that is not timed: what is slow
    because the process is cold, or because the machine is busy for a while, would pass for the cost of a kind.
    """
    sessions = job_sessions(settings)
    with sessions() as session:
        asked = session.get(DryRun, dry_run_id)
        dataset = session.get(Dataset, asked.dataset_id) if asked is not None else None
    if asked is None or dataset is None or asked.status is not ResultStatus.QUEUED:
        return ()
    be_quiet()
    choose_device(device)
    try:
        configs = asked.configs
        shown = _warm_up(configs[0], dataset, settings, device)
        there = _time(configs, dataset, settings, device)
        back = _time(configs[::-1], dataset, settings, device)[::-1]
        results = shown.model_copy(update={"kinds": [_joined(passes) for passes in zip(there, back, strict=True)]})
        with sessions.begin() as session:
            session.execute(_waiting(dry_run_id).values(status=ResultStatus.READY, results=results, error=None))
    except Exception as error:  # noqa: BLE001 - whatever it is belongs into the row, not into a retry
        record(error, sessions, _waiting(dry_run_id), status=ResultStatus.FAILED)
    return ()


def _warm_up(config: RunConfig, dataset: Dataset, settings: Settings, device: str) -> DryRunResults:
    """Rehearse all of it once, and return what that shows."""
    rehearsal = Rehearsal(config, dataset, settings, device)
    shown = rehearsal.shown()
    rehearsal.times(rehearsal.final_cost())
    return shown


def _time(configs: Sequence[RunConfig], dataset: Dataset, settings: Settings, device: str) -> list[StepCosts]:
    """Time each configuration, one model in memory at a time; the final measuring once for all that measure alike."""
    costs: dict[tuple[str, int, int | None], FinalCost] = {}
    found = []
    for config in configs:
        gc.collect()  # a Trainer and its callbacks refer to one another, and would keep the model before beside this
        rehearsal = Rehearsal(config, dataset, settings, device)
        alike = (config.model, config.batch_size, config.max_length)
        if alike not in costs:
            costs[alike] = rehearsal.final_cost()
        found.append(rehearsal.times(costs[alike]))
        del rehearsal
    return found


def _joined(passes: Sequence[StepCosts]) -> StepCosts:
    """Return the sizes of a kind, each of its times as the mean of all passes, and its fastest and slowest."""
    seconds = {
        name: [getattr(one, name) for one in passes] for name in StepCosts.model_fields if name.startswith("seconds")
    }
    return passes[0].model_copy(
        update={
            **{name: statistics.fmean(values) for name, values in seconds.items()},
            "fastest": {name: min(values) for name, values in seconds.items()},
            "slowest": {name: max(values) for name, values in seconds.items()},
        }
    )


def _waiting(dry_run_id: str) -> Update:
    return update(DryRun).where(DryRun.id == dry_run_id, DryRun.status == ResultStatus.QUEUED)
