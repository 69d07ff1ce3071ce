"""Sealed test scores: record frozen choices, and read scores once a choice is recorded."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field
from sqlalchemy import Select, func, select
from sqlalchemy.orm import Session

from app.context import Context
from app.db.models import Experiment, Opening, Run, SealedScore, Split
from app.db.session import OPENINGS_LOCK, acquire_locks
from app.db.types import utcnow
from app.results.conclusion import choices
from app.results.run_table import RunTable
from app.training.experiments import get_experiment
from app.web.activity import current_user_name
from isoscope.core.errors import ConflictError
from isoscope.core.formatting import one_line, plural
from isoscope.files.strict import Strict


class OpeningRequest(Strict):
    """A choice to be frozen permanently."""

    choose: Annotated[str, Field(min_length=1, max_length=2000)] = Field(
        description="A setting as the page calls it, such as `lambda = -1`; or a run, by its id."
    )
    note: Annotated[str, Field(max_length=2000)] = Field("", description="Why, in your words.")
    by: Annotated[str, Field(max_length=200)] = Field(
        "", description="Who chooses; if empty, the name of the token, or the local user where none is needed."
    )


@dataclass(frozen=True)
class TestSplit:
    """The test split of an experiment. Scores are present only after it was opened."""

    __test__ = False

    experiment: Experiment
    n_scored_runs: int
    n: int | None
    """Number of test rows; None until a run has scored them."""
    rows_sha256: str | None
    openings: list[Opening]
    """Frozen choices in order. The first counts."""
    opened_on_rows: int
    """Number of choices opened on the same rows so far, in any experiment."""
    scores: choices.OpenedScores | None
    unfinished_reason: str
    """Why no choice can be frozen yet, as a sentence; empty if one can."""

    @property
    def exists(self) -> bool:
        """Return whether there are test rows to open, now or once runs have finished."""
        return bool(self.n_scored_runs or self.openings or self.experiment.dataset.n_test)

    @property
    def settings(self) -> list[choices.Choice]:
        return choices.list_setting_choices(RunTable.from_experiment(self.experiment))

    @property
    def runs(self) -> list[choices.Choice]:
        return choices.list_run_choices(RunTable.from_experiment(self.experiment))


def read_test_split(context: Context, experiment: Experiment) -> TestSplit:
    with context.sessions() as session:
        openings = list_openings(session, experiment.id)
        n_scored, n, rows_sha256 = session.execute(_select_score_summary(experiment.id)).one()
        n_opened = _count_openings(session, rows_sha256) if rows_sha256 else 0
        scores = None
        if openings:
            score_query = select(SealedScore).join(Run).where(Run.experiment_id == experiment.id)
            score_by_run = {score.run_id: score for score in session.scalars(score_query)}
            sweep, metric = RunTable.from_experiment(experiment), experiment.config.metric
            scores = choices.summarize_opened(sweep, score_by_run, openings, metric)
    return TestSplit(experiment, n_scored, n, rows_sha256, openings, n_opened, scores, describe_unfinished(experiment))


def open_test(context: Context, experiment_id: str, request: OpeningRequest) -> TestSplit:
    """Record a choice and open the test scores of an experiment.

    Raises:
        ConflictError: the choice has no test scores, runs are unfinished, or the latest choice is the same.
        InvalidError: there is no such setting or run.

    """
    experiment = get_experiment(context, experiment_id)
    with context.sessions.begin() as session:
        acquire_locks(session.connection(), OPENINGS_LOCK)
        if unfinished_reason := describe_unfinished(experiment):
            raise ConflictError(f"{unfinished_reason} Wait, or cancel the rest, before you freeze a choice.")
        n_scored, _, _ = session.execute(_select_score_summary(experiment.id)).one()
        if not n_scored and experiment.dataset.n_test is None:
            raise ConflictError(
                "This experiment has no test scores, because its data set has no test split. Upload the data set with "
                "a test file, then launch again."
            )
        if not n_scored:
            raise ConflictError("No run has finished, so there are no test scores to open.")
        choice = choices.find_choice(RunTable.from_experiment(experiment), request.choose)
        ids = [run.id for run in choice.runs]
        rows_sha256 = session.scalar(select(func.min(SealedScore.rows_sha256)).where(SealedScore.run_id.in_(ids)))
        if rows_sha256 is None:
            raise ConflictError(f"No run of {choice.label} has a test score. Choose another.", "choose")
        earlier = list_openings(session, experiment_id)
        if earlier and (earlier[-1].kind, earlier[-1].position) == (choice.kind, choice.position):
            raise ConflictError(f"{choice.label} is already the choice.", "choose")
        session.add(
            Opening(
                experiment_id=experiment_id,
                experiment_name=experiment.name,
                number=len(earlier) + 1,
                kind=choice.kind,
                position=choice.position,
                label=choice.label,
                note=request.note.strip() or None,
                by=one_line(request.by) or current_user_name(),
                at=utcnow(),
                rows_sha256=rows_sha256,
                opened_before=_count_openings(session, rows_sha256),
            )
        )
    return read_test_split(context, experiment)


def require_opened(session: Session, run: Run, split: Split) -> None:
    if split is Split.TEST and not list_openings(session, run.experiment_id):
        raise ConflictError(
            "Test scores and predictions are sealed. Freeze a choice and open them on the experiment's page, or by "
            f"POST /api/experiments/{run.experiment_id}/opening.",
            "split",
            page=f"/experiments/{run.experiment_id}/opening",
        )


def describe_unfinished(experiment: Experiment) -> str:
    if experiment.searching:
        return "The search is still running."
    n_unfinished = sum(not run.status.final for run in experiment.runs)
    return f"{plural(n_unfinished, 'run has', 'runs have')} not ended." if n_unfinished else ""


def _select_score_summary(experiment_id: str) -> Select[int, int | None, str | None]:
    summary_query = select(func.count(), func.max(SealedScore.n), func.min(SealedScore.rows_sha256))
    return summary_query.select_from(SealedScore).join(Run).where(Run.experiment_id == experiment_id)


def list_openings(session: Session, experiment_id: str) -> list[Opening]:
    opening_query = select(Opening).where(Opening.experiment_id == experiment_id)
    return list(session.scalars(opening_query.order_by(Opening.number)))


def _count_openings(session: Session, rows_sha256: str) -> int:
    # An imported opening has the record id of its original, so both count once.
    count_query = select(func.count(Opening.record_id.distinct())).where(Opening.rows_sha256 == rows_sha256)
    return session.scalars(count_query).one()
