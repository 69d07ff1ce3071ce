"""The forms filled in with what was launched before: one run, a whole experiment, a search."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from app.context import Context
from app.db.models import Dataset, DatasetOrigin, RunStatus
from app.routes.pages.sweep_form import Values, texts_of_settings, unsaid
from app.services.experiments import get_experiment
from app.services.relaunch import Request, request_of, request_of_run
from app.services.runs import get_run
from app.services.studies import StudyRequest
from app.services.sweeps import SweepRequest
from app.training.failure_advice import changed_for, problem_of
from isoscope.core.errors import InvalidError


class Again(NamedTuple):
    """The form's values, and the sentence at the field that has to be changed."""

    values: Values
    problem: InvalidError | None = None
    search: Mapping[str, Any] = {}
    """Of a search, what it ranges over."""


def again(context: Context, run_id: str | None, experiment_id: str | None) -> Again:
    """What the form starts with where a run or an experiment is to be launched again; else nothing."""
    if run_id:
        run = get_run(context, run_id)
        before = _values(request_of_run(run), run.experiment.dataset)
        if run.status is not RunStatus.FAILED:
            return Again(before, _unsaid(run.experiment.dataset))
        before |= {"name": run.experiment.name}  # of which nothing came that would have to be told apart
        after = changed_for(run, before)
        return Again(after, problem_of(run, before, after))
    if experiment_id:
        experiment = get_experiment(context, experiment_id)
        request = request_of(experiment)
        search = request.search.model_dump(mode="json") if isinstance(request, StudyRequest) else {}
        return Again(_values(request, experiment.dataset), _unsaid(experiment.dataset, request), search)
    return Again({})


def _values(request: Request, dataset: Dataset) -> Values:
    """The form's texts, but for the name, which tells experiments apart, and for a data set that is not here."""
    left_out = {"name", "search"} | ({"dataset_id"} if dataset.origin is DatasetOrigin.NAMED else set())
    return texts_of_settings(request.model_dump(mode="json", exclude=left_out)) | {"preset": ""}


def _unsaid(dataset: Dataset, request: Request | None = None) -> InvalidError | None:
    if dataset.origin is DatasetOrigin.NAMED:
        return InvalidError(
            f"The rows of {dataset.name} are where its runs were trained. Choose a data set that is here.", "dataset_id"
        )
    if isinstance(request, SweepRequest) and "fixed_regularizers" in request.grid:
        return unsaid()
    return None
