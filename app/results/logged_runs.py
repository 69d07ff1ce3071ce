"""Runs that a user's own script writes while it trains: no worker has anything to do with them."""

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import Field, field_validator
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from app.context import Context
from app.db.learning import diverged
from app.db.models import Dataset, DatasetOrigin, Experiment, ExperimentOrigin, Run, RunStatus, Step
from app.db.reported_config import Line, Scalar, Word
from app.db.run_results import LayerValues, RunResults
from app.db.session import hold
from app.db.types import Count, Number, new_id, utcnow
from app.results.labels import OF_SENTENCES, SCALES, WATCHED, MetricRange
from app.results.logged_config import ScriptRun, differ, judge
from app.training.experiments import no_run
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
"""By which a sum of single precision may leave the range of a metric or of IsoScore★."""
MEASURES = (*WATCHED, *OF_SENTENCES)
ISOSCORE_STAR = MetricRange("IsoScore★", 0)

ByLayer = dict[str, Annotated[list[Number | None], Field(min_length=1, max_length=MAX_LAYERS)]]


def _that_there_are(measures: Sequence[str]) -> None:
    if unknown := sorted(set(measures) - set(MEASURES)):
        raise ValueError(f"expected measures among {', '.join(MEASURES)}; got {unknown[0]!r}")


def _in_range(name: str, value: float, scale: MetricRange) -> float:
    if not scale.low - ROUNDING <= value <= 1 + ROUNDING:
        raise ValueError(f"expected {name} from {scale.range}, got {value:g}; a percentage has to be divided by 100")
    return min(max(value, scale.low), 1.0)


class LoggedStep(Strict):
    """What a script tells of one optimizer step; told twice, what is new replaces what was, of layers by measure."""

    step: int = Field(ge=0, lt=2**31)
    task_loss: Number | None = None
    penalty: Number | None = Field(None, description="As added to the task's loss.")
    layers: ByLayer | None = Field(
        None, description="Measures by layer, first transformer layer first; null where one is undefined."
    )
    reason: Line | None = Field(None, description="Why a value is null, such as NaN or infinity.")

    @field_validator("layers")
    @classmethod
    def _known(cls, layers: ByLayer | None) -> ByLayer | None:
        _that_there_are(list(layers or ()))
        return layers or None


class LoggedSteps(Strict):
    """Some steps at once; none of them says that the script still trains."""

    steps: list[LoggedStep] = Field(max_length=STEPS_AT_ONCE)


class LoggedLayers(Strict):
    """A measure of the trained model's layers."""

    values: list[Number | None] = Field(
        min_length=1, max_length=MAX_LAYERS, description="First transformer layer first."
    )
    reasons: list[Line | None] | None = Field(None, description="Beside each null, why.", max_length=MAX_LAYERS)
    n: Count | None = Field(None, ge=1, description="Points behind each.")


class Ending(Strict):
    """How a script's run ended: what came out, or a sentence that says what went wrong."""

    error: Line | None = Field(None, min_length=1, description="What went wrong, if the run failed.")
    metrics: dict[Metric, Number | None] = Field(
        default_factory=dict,
        description="On the validation rows, from 0 to 1, not in percent. The metric of the experiment is the "
        "performance.",
    )
    metric_reasons: dict[Metric, Line] = Field(default_factory=dict, description="Why a metric is null.")
    isoscore_star: Number | None = Field(None, description="IsoScore★ of the trained model, from 0 to 1.")
    isoscore_star_reason: Line | None = None
    n_validation: Count | None = Field(None, ge=1)
    by_layer: dict[str, LoggedLayers] = Field(default_factory=dict)
    results: dict[Word, Scalar] = Field(default_factory=dict, max_length=100, description="Whatever else came out.")
    notes: list[Line] = Field(default_factory=list, max_length=MAX_NOTES, description="Caveats.")

    @field_validator("metrics")
    @classmethod
    def _in_their_ranges(cls, metrics: dict[Metric, float | None]) -> dict[Metric, float | None]:
        known = {metric: value for metric, value in metrics.items() if value is not None}
        return metrics | {metric: _in_range(metric, value, SCALES[metric]) for metric, value in known.items()}

    @field_validator("isoscore_star")
    @classmethod
    def _a_score(cls, value: float | None) -> float | None:
        return value if value is None else _in_range("isoscore_star", value, ISOSCORE_STAR)

    @field_validator("by_layer")
    @classmethod
    def _known(cls, by_layer: dict[str, LoggedLayers]) -> dict[str, LoggedLayers]:
        _that_there_are(list(by_layer))
        return by_layer


def begin_run(context: Context, told: ScriptRun) -> Run:
    """Make the run that a script announces, or return the one that it has made with this id."""
    told.check()
    with context.sessions.begin() as session:
        hold(session.connection(), "script runs")
        run = session.get(Run, told.id) if told.id else None
        if run is not None:
            return _require_script(run)
        experiment = _experiment(session, told)
        position = session.scalars(select(func.count()).where(Run.experiment_id == experiment.id)).one()
        if position >= MAX_RUNS:
            raise TooLargeError(
                f"Expected at most {count(MAX_RUNS)} runs in one experiment, got one more. Begin another experiment.",
                "experiment",
            )
        config = told.config
        experiment.grid = differ(experiment.config, experiment.grid, config)
        now = utcnow()
        environment: dict[str, Any] = {**told.environment}
        if told.probe is not None:
            environment["probe"] = told.probe.model_dump()
        run = Run(
            id=told.id or new_id(),
            experiment_id=experiment.id,
            position=position,
            config=config,
            regularizer=told.regularizer,
            lam=told.lam,
            zeta=told.zeta or 0.0,
            seed=told.seed,
            status=RunStatus.STREAMING,
            phase_total=told.total_steps,
            started_at=now,
            heard_at=now,
            environment=environment or None,
        )
        session.add(run)
    return run


def hold_streaming(session: Session, run_id: str) -> Run:
    """Return a run that its script still writes, locked until the transaction ends."""
    hold(session.connection(), run_id)
    run = find_script_run(session, run_id)
    if run.status is not RunStatus.STREAMING:
        raise ConflictError(f"Nothing can be logged to this run any more: it is {run.status}.", "status")
    return run


def log_steps(context: Context, run_id: str, told: LoggedSteps) -> Run:
    """Add steps to a run that its script writes."""
    with context.sessions.begin() as session:
        run = hold_streaming(session, run_id)
        _require_one_depth(session, run_id, told)
        numbers = [one.step for one in told.steps]
        stored = {row.step: row for row in session.scalars(select(Step).where(_of(run_id), Step.step.in_(numbers)))}
        for one in told.steps:
            row = stored.get(one.step)
            if row is None:
                row = stored[one.step] = Step(run_id=run_id, step=one.step)
                session.add(row)
            new = one.model_dump(include=one.model_fields_set - {"step", "reason"})
            if row.layers and one.layers:
                new["layers"] = row.layers | one.layers
            for name, value in new.items():
                setattr(row, name, value)
        session.flush()
        if session.scalars(select(func.count()).where(_of(run_id))).one() > MAX_STEPS:
            raise TooLargeError(
                f"Expected at most {count(MAX_STEPS)} steps of a run, got more. Log every tenth or hundredth.", "steps"
            )
        run.heard_at = utcnow()
        run.phase_done = max([run.phase_done, *numbers])
        run.notes = _with(run.notes, [f"Step {count(one.step)}: {one.reason}" for one in told.steps if one.reason])
    return run


def finish_run(context: Context, run_id: str, told: Ending) -> Run:
    """End a run that its script writes; one that has ended so already stays as it is."""
    with context.sessions.begin() as session:
        hold(session.connection(), run_id)
        run = find_script_run(session, run_id)
        if run.status in (RunStatus.FINISHED, RunStatus.FAILED):
            return run
        if run.status is not RunStatus.STREAMING:
            raise ConflictError(f"This run cannot be finished any more: it is {run.status}.", "status")
        metric = run.config.metric
        run.performance = told.metrics.get(metric)
        if run.performance is None:
            run.performance_reason = told.metric_reasons.get(metric, f"Its script gave no {metric}.")
        run.isoscore_star = told.isoscore_star
        if run.isoscore_star is None:
            run.isoscore_star_reason = told.isoscore_star_reason or "Its script gave no IsoScore★."
        run.status = RunStatus.FAILED if told.error else RunStatus.FINISHED
        run.error, run.results = told.error, RunResults(**judge(session, run) | _results(told))
        run.learning = run.results.learning
        own = [note for note in (diverged(run),) if note]
        run.notes = _with([*own, *told.notes], run.notes)  # those of steps, of which there may be any number, give way
        run.finished_at = run.heard_at = utcnow()
    return run


def _results(told: Ending) -> dict[str, Any]:
    """What the row keeps, as a worker writes it, but for what the script did not say."""
    return {
        "metrics": told.metrics,
        "metric_reasons": told.metric_reasons,
        **({} if told.n_validation is None else {"n_validation": told.n_validation}),
        "by_layer": {
            measure: LayerValues(values=found.values, reasons=_reasons(measure, found))
            for measure, found in told.by_layer.items()
        },
        "by_layer_n": {measure: found.n for measure, found in told.by_layer.items()},
        "further": told.results,
    }


def _reasons(measure: str, found: LoggedLayers) -> list[str | None]:
    reasons = found.reasons or [None] * len(found.values)
    if len(reasons) != len(found.values):
        raise InvalidError(
            f"Expected a reason or null beside each of the {len(found.values)} values of {measure}, got "
            f"{len(reasons)} reasons.",
            "by_layer",
        )
    gaps = zip(found.values, reasons, strict=True)
    return [None if value is not None else reason or "Its script does not say why." for value, reason in gaps]


def _experiment(session: Session, told: ScriptRun) -> Experiment:
    """The newest one of this name that a script began, or a new one."""
    named = select(Experiment).where(Experiment.name == told.experiment, Experiment.origin == ExperimentOrigin.LOGGED)
    found = session.scalar(named.order_by(Experiment.created_at.desc(), Experiment.id).limit(1).with_for_update())
    if found is None:
        dataset = _dataset(session, told.dataset)
        found = Experiment(
            name=told.experiment,
            dataset_id=dataset.id,
            config=told.shared_config,
            grid={},
            origin=ExperimentOrigin.LOGGED,
        )
        session.add(found)
        session.flush()
        return found
    there = {"dataset": found.dataset.name, "task": found.config.task, "metric": found.config.metric}
    for name, value in there.items():
        if (given := str(getattr(told, name))) != value:
            raise InvalidError(
                f"Expected the {name} of the experiment {told.experiment!r}, which is {value}, so that its runs can be "
                f"compared; got {given}. Give this run's experiment another name.",
                name,
            )
    return found


def _dataset(session: Session, name: str) -> Dataset:
    named = select(Dataset).where(Dataset.name == name, Dataset.origin == DatasetOrigin.NAMED).order_by(Dataset.id)
    found = session.scalar(named.limit(1))
    if found is None:
        found = Dataset(name=name, origin=DatasetOrigin.NAMED, columns=[])
        session.add(found)
        session.flush()
    return found


def find_script_run(session: Session, run_id: str) -> Run:
    """Return a run that a script writes, held until the transaction ends."""
    # Held, so that it is neither cancelled nor deleted between this look and what is written.
    run = session.get(Run, run_id, with_for_update=True)
    if run is None:
        raise no_run(run_id)
    return _require_script(run)


def _require_script(run: Run) -> Run:
    if not run.config.logged:
        raise ConflictError("This run is a worker's: only what a script has begun itself can be written by one.")
    return run


def _of(run_id: str) -> Any:
    return Step.run_id == run_id


def _require_one_depth(session: Session, run_id: str, told: LoggedSteps) -> None:
    """Refuse measures of more or fewer layers than the run has told before: figures show layers by steps."""
    if new := [one.layers for one in told.steps if one.layers]:
        before = session.scalar(select(Step.layers).where(_of(run_id), Step.layers.is_not(None)).limit(1))
        depths = list(dict.fromkeys(len(values) for layers in [before or {}, *new] for values in layers.values()))
        if len(depths) > 1:
            raise InvalidError(
                f"Expected every measure of this run's layers as a list of {depths[0]}, null where it is undefined, as "
                f"the first was; got one of {depths[1]}.",
                "steps",
            )


def _with(notes: list[str], more: Sequence[str]) -> list[str]:
    return list(dict.fromkeys([*notes, *more]))[:MAX_NOTES]
