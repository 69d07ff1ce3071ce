"""Runs that a user's script logs while it trains; workers do not touch them."""

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import Field, field_validator
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from app.context import Context
from app.db.learning import divergence_note
from app.db.models import Dataset, DatasetOrigin, Experiment, ExperimentOrigin, Run, RunStatus, Step
from app.db.reported_config import ReportedConfig, Scalar, SettingName, TextLine
from app.db.run_results import LayerValues, RunResults
from app.db.session import acquire_locks
from app.db.types import Count, Number, new_id, utcnow
from app.results.labels import METRIC_AXES, SENTENCE_MEASURES, TRAINING_MEASURES, MetricAxis
from app.results.logged_config import ScriptRun, compute_results, extend_grid
from app.training.experiments import run_not_found
from isoscope.core.errors import ConflictError, InvalidError, TooLargeError
from isoscope.core.formatting import count
from isoscope.core.task import Metric
from isoscope.files.strict import Strict

MAX_RUNS = 10_000
MAX_STEPS = 100_000
STEPS_AT_ONCE = 1000
MAX_LAYERS = 1000
MAX_NOTES = 50
ROUNDING = 1e-5
"""How far rounding in single precision may push a score beyond the range of its metric."""
MEASURES = (*TRAINING_MEASURES, *SENTENCE_MEASURES)
ISOSCORE_STAR = MetricAxis("IsoScore★", 0)

LayerLists = dict[str, Annotated[list[Number | None], Field(min_length=1, max_length=MAX_LAYERS)]]


def _require_known_measures(measures: Sequence[str]) -> None:
    if unknown := sorted(set(measures) - set(MEASURES)):
        raise ValueError(f"expected measures among {', '.join(MEASURES)}; got {unknown[0]!r}")


def _clip_to_range(name: str, value: float, metric_axis: MetricAxis) -> float:
    if not metric_axis.low - ROUNDING <= value <= 1 + ROUNDING:
        raise ValueError(
            f"expected {name} from {metric_axis.range}, got {value:g}; a percentage has to be divided by 100"
        )
    return min(max(value, metric_axis.low), 1.0)


class LoggedStep(Strict):
    """Losses and measures of one optimizer step. Values that are logged again replace old ones, layers by measure."""

    step: int = Field(ge=0, lt=2**31)
    task_loss: Number | None = None
    penalty: Number | None = Field(None, description="As added to the task's loss.")
    layers: LayerLists | None = Field(
        None, description="Measures by layer, first transformer layer first; null where one is undefined."
    )
    reason: TextLine | None = Field(None, description="Why a value is null, such as NaN or infinity.")

    @field_validator("layers")
    @classmethod
    def _check_layers(cls, layers: LayerLists | None) -> LayerLists | None:
        _require_known_measures(list(layers or ()))
        return layers or None


class LoggedSteps(Strict):
    """Several steps. An empty list says that the script is still training."""

    steps: list[LoggedStep] = Field(max_length=STEPS_AT_ONCE)


class LoggedLayers(Strict):
    """A measure of the trained model's layers."""

    values: list[Number | None] = Field(
        min_length=1, max_length=MAX_LAYERS, description="First transformer layer first."
    )
    reasons: list[TextLine | None] | None = Field(
        None, description="For each value: null, or why it is null.", max_length=MAX_LAYERS
    )
    n: Count | None = Field(None, ge=1, description="Number of points in each layer.")


class LoggedEnding(Strict):
    """The results of a script's run, or the error that ended it."""

    error: TextLine | None = Field(None, min_length=1, description="What went wrong, if the run failed.")
    metrics: dict[Metric, Number | None] = Field(
        default_factory=dict,
        description="On the validation rows, from 0 to 1, not in percent. The metric of the experiment is the "
        "performance.",
    )
    metric_reasons: dict[Metric, TextLine] = Field(default_factory=dict, description="Why a metric is null.")
    isoscore_star: Number | None = Field(None, description="IsoScore★ of the trained model, from 0 to 1.")
    isoscore_star_reason: TextLine | None = None
    n_validation: Count | None = Field(None, ge=1)
    by_layer: dict[str, LoggedLayers] = Field(default_factory=dict)
    results: dict[SettingName, Scalar] = Field(default_factory=dict, max_length=100, description="Other results.")
    notes: list[TextLine] = Field(default_factory=list, max_length=MAX_NOTES, description="Caveats.")

    @field_validator("metrics")
    @classmethod
    def _check_metrics(cls, metrics: dict[Metric, float | None]) -> dict[Metric, float | None]:
        numbers = {metric: value for metric, value in metrics.items() if value is not None}
        return metrics | {
            metric: _clip_to_range(metric, value, METRIC_AXES[metric]) for metric, value in numbers.items()
        }

    @field_validator("isoscore_star")
    @classmethod
    def _check_score(cls, value: float | None) -> float | None:
        return value if value is None else _clip_to_range("isoscore_star", value, ISOSCORE_STAR)

    @field_validator("by_layer")
    @classmethod
    def _check_by_layer(cls, by_layer: dict[str, LoggedLayers]) -> dict[str, LoggedLayers]:
        _require_known_measures(list(by_layer))
        return by_layer


def begin_run(context: Context, request: ScriptRun) -> Run:
    """Add a run to a script's experiment, which is created if there is none; a run that exists is returned."""
    request.check()
    with context.sessions.begin() as session:
        acquire_locks(session.connection(), "script runs")
        run = session.get(Run, request.id) if request.id else None
        if run is not None:
            return _require_script_run(run)
        experiment = _find_or_create_experiment(session, request)
        position = session.scalars(select(func.count()).where(Run.experiment_id == experiment.id)).one()
        if position >= MAX_RUNS:
            raise TooLargeError(
                f"Expected at most {count(MAX_RUNS)} runs in one experiment, got one more. Begin another experiment.",
                "experiment",
            )
        config = request.config
        experiment.grid = extend_grid(experiment.config, experiment.grid, config)
        now = utcnow()
        environment: dict[str, Any] = {**request.environment}
        if request.probe is not None:
            environment["probe"] = request.probe.model_dump()
        run = Run(
            id=request.id or new_id(),
            experiment_id=experiment.id,
            position=position,
            config=config,
            regularizer=request.regularizer,
            lam=request.lam,
            zeta=request.zeta or 0.0,
            seed=request.seed,
            status=RunStatus.STREAMING,
            phase_total=request.total_steps,
            started_at=now,
            heard_at=now,
            environment=environment or None,
        )
        session.add(run)
    return run


def lock_streaming_run(session: Session, run_id: str) -> Run:
    """Return a run, locked until the transaction ends. Raise ConflictError unless its script is still logging it."""
    acquire_locks(session.connection(), run_id)
    run = find_script_run(session, run_id)
    if run.status is not RunStatus.STREAMING:
        raise ConflictError(f"Nothing more can be logged to this run: it is {run.status}.", "status")
    return run


def log_steps(context: Context, run_id: str, request: LoggedSteps) -> Run:
    """Store steps of a script's run, and note that it is alive. Raise InvalidError if the number of layers varies."""
    with context.sessions.begin() as session:
        run = lock_streaming_run(session, run_id)
        if new_layers := [step.layers for step in request.steps if step.layers]:
            layers_query = select(Step.layers).where(Step.run_id == run_id, Step.layers.is_not(None)).limit(1)
            all_layers = [session.scalar(layers_query) or {}, *new_layers]
            layer_counts = list(dict.fromkeys(len(values) for layers in all_layers for values in layers.values()))
            if len(layer_counts) > 1:
                raise InvalidError(
                    f"Expected every measure of this run's layers as a list of {layer_counts[0]}, null where it is "
                    f"undefined, as the first was; got one of {layer_counts[1]}.",
                    "steps",
                )
        step_numbers = [step.step for step in request.steps]
        step_query = select(Step).where(Step.run_id == run_id, Step.step.in_(step_numbers))
        stored_steps = {row.step: row for row in session.scalars(step_query)}
        for step in request.steps:
            row = stored_steps.get(step.step)
            if row is None:
                row = stored_steps[step.step] = Step(run_id=run_id, step=step.step)
                session.add(row)
            values = step.model_dump(include=step.model_fields_set - {"step", "reason"})
            if row.layers and step.layers:
                values["layers"] = row.layers | step.layers
            for name, value in values.items():
                setattr(row, name, value)
        session.flush()
        if session.scalars(select(func.count()).where(Step.run_id == run_id)).one() > MAX_STEPS:
            raise TooLargeError(
                f"Expected at most {count(MAX_STEPS)} steps of a run, got more. Log every tenth or hundredth.", "steps"
            )
        run.heard_at = utcnow()
        run.phase_done = max([run.phase_done, *step_numbers])
        reasons = [f"Step {count(step.step)}: {step.reason}" for step in request.steps if step.reason]
        run.notes = list(dict.fromkeys([*run.notes, *reasons]))[:MAX_NOTES]
    return run


def finish_run(context: Context, run_id: str, ending: LoggedEnding) -> Run:
    """End a script's run. A run that has already finished or failed does not change."""
    with context.sessions.begin() as session:
        acquire_locks(session.connection(), run_id)
        run = find_script_run(session, run_id)
        if run.status in (RunStatus.FINISHED, RunStatus.FAILED):
            return run
        if run.status is not RunStatus.STREAMING:
            raise ConflictError(f"This run can no longer be finished: it is {run.status}.", "status")
        metric = run.config.metric
        run.performance = ending.metrics.get(metric)
        if run.performance is None:
            run.performance_reason = ending.metric_reasons.get(metric, f"Its script gave no {metric}.")
        run.isoscore_star = ending.isoscore_star
        if run.isoscore_star is None:
            run.isoscore_star_reason = ending.isoscore_star_reason or "Its script gave no IsoScore★."
        run.status = RunStatus.FAILED if ending.error else RunStatus.FINISHED
        run.error, run.results = ending.error, RunResults(**compute_results(session, run) | _collect_results(ending))
        run.learning = run.results.learning
        # Notes of steps come last, because they alone may reach the limit.
        notes = dict.fromkeys([*filter(None, [divergence_note(run)]), *ending.notes, *run.notes])
        run.notes = list(notes)[:MAX_NOTES]
        run.finished_at = run.heard_at = utcnow()
    return run


def _collect_results(ending: LoggedEnding) -> dict[str, Any]:
    by_layer = {}
    for measure, layers in ending.by_layer.items():
        reasons = layers.reasons or [None] * len(layers.values)
        if len(reasons) != len(layers.values):
            raise InvalidError(
                f"Expected a reason or null for each of the {len(layers.values)} values of {measure}, got "
                f"{len(reasons)} reasons.",
                "by_layer",
            )
        null_reasons = [
            None if value is not None else reason or "Its script does not say why."
            for value, reason in zip(layers.values, reasons, strict=True)
        ]
        by_layer[measure] = LayerValues(values=layers.values, reasons=null_reasons)
    return {
        "metrics": ending.metrics,
        "metric_reasons": ending.metric_reasons,
        **({} if ending.n_validation is None else {"n_validation": ending.n_validation}),
        "by_layer": by_layer,
        "by_layer_n": {measure: layers.n for measure, layers in ending.by_layer.items()},
        "further": ending.results,
    }


def _find_or_create_experiment(session: Session, request: ScriptRun) -> Experiment:
    is_logged = Experiment.origin == ExperimentOrigin.LOGGED
    experiment_query = select(Experiment).where(Experiment.name == request.experiment, is_logged)
    newest = experiment_query.order_by(Experiment.created_at.desc(), Experiment.id).limit(1)
    experiment = session.scalar(newest.with_for_update())
    if experiment is None:
        dataset_query = select(Dataset).where(Dataset.name == request.dataset, Dataset.origin == DatasetOrigin.BY_NAME)
        dataset = session.scalar(dataset_query.order_by(Dataset.id).limit(1))
        if dataset is None:
            dataset = Dataset(name=request.dataset, origin=DatasetOrigin.BY_NAME, columns=[])
            session.add(dataset)
            session.flush()
        experiment = Experiment(
            name=request.experiment,
            dataset_id=dataset.id,
            config=ReportedConfig(
                logged=True, **request.model_dump(include={"model", "task", "metric"}), **request.settings
            ),
            grid={},
            origin=ExperimentOrigin.LOGGED,
        )
        session.add(experiment)
        session.flush()
        return experiment
    expected = {"dataset": experiment.dataset.name, "task": experiment.config.task, "metric": experiment.config.metric}
    for name, value in expected.items():
        if (logged_value := str(getattr(request, name))) != value:
            raise InvalidError(
                f"Expected the {name} of the experiment {request.experiment!r}, which is {value}, so that its runs can "
                f"be compared; got {logged_value}. Give this run's experiment another name.",
                name,
            )
    return experiment


def find_script_run(session: Session, run_id: str) -> Run:
    """Return a script's run, locked until the transaction ends, so that it cannot be cancelled or deleted before."""
    run = session.get(Run, run_id, with_for_update=True)
    if run is None:
        raise run_not_found(run_id)
    return _require_script_run(run)


def _require_script_run(run: Run) -> Run:
    if not run.config.logged:
        raise ConflictError("A worker trains this run. A script can only write to runs that it began.")
    return run
