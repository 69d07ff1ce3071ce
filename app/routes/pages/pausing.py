"""Buttons that stop, put aside, resume, repeat and move runs and whole experiments; each leads back to its page."""

from collections.abc import Callable
from typing import Annotated, Literal, NamedTuple

from fastapi import APIRouter, Depends, Form, Response

from app.context import Context
from app.db.models import Experiment, Run
from app.dependencies import ContextDep
from app.results.run_table import encoded
from app.routes.responses import see
from app.services.dry_runs import delete_dry_run
from app.services.experiments import cancel_experiment
from app.services.pausing import (
    pause_all,
    pause_experiment,
    pause_run,
    resume_all,
    resume_experiment,
    resume_run,
    retry_run,
)
from app.services.run_search import RunQuery
from app.services.runs import cancel_run
from app.services.turns import Place, move_experiment, move_run

router = APIRouter()

RUN_VERBS = {"cancel": cancel_run, "pause": pause_run, "resume": resume_run, "retry": retry_run}
EXPERIMENT_VERBS = {"cancel": cancel_experiment, "pause": pause_experiment, "resume": resume_experiment}

Page = Literal["", "queue", "experiment", "runs", "across"]
Back = Annotated[Literal["", "queue"], Form()]


class Origin(NamedTuple):
    """The page that a run's button was on, where it is not that of the run itself, and what was searched for there."""

    back: Page
    query: RunQuery

    def address(self, run: Run) -> str:
        """Where to go when it was pressed."""
        searched = encoded(self.query)
        pages = {
            "queue": "/queue",
            "experiment": f"/experiments/{run.experiment_id}",
            "runs": f"/experiments/{run.experiment_id}/runs{searched}",
            "across": f"/compare/runs/list{searched}",
        }
        return pages.get(self.back, f"/runs/{run.id}")


def _origin(
    back: Annotated[Page, Form()] = "",
    q: Annotated[str, Form()] = "",
    sort: Annotated[str, Form()] = "",
    page: Annotated[int, Form(ge=1)] = 1,
) -> Origin:
    return Origin(back, RunQuery.of(q, sort, page))


OriginDep = Annotated[Origin, Depends(_origin)]


def _run_button(change: Callable[[Context, str], Run]) -> Callable[..., Response]:
    def press(context: ContextDep, run_id: str, origin: OriginDep) -> Response:
        return see(origin.address(change(context, run_id)))

    return press


def _experiment_button(change: Callable[[Context, str], Experiment]) -> Callable[..., Response]:
    def press(context: ContextDep, experiment_id: str, back: Back = "") -> Response:
        return _to_page_of_experiment(change(context, experiment_id).id, back)

    return press


for verb, change_run in RUN_VERBS.items():
    router.post(f"/runs/{{run_id}}/{verb}", name=f"{verb}_run")(_run_button(change_run))
for verb, change_experiment in EXPERIMENT_VERBS.items():
    router.post(f"/experiments/{{experiment_id}}/{verb}", name=f"{verb}_experiment")(
        _experiment_button(change_experiment)
    )


@router.post("/runs/{run_id}/move/{place}")
def change_turn_of_run(context: ContextDep, run_id: str, place: Place, origin: OriginDep) -> Response:
    """Move a waiting run before or behind others."""
    return see(origin.address(move_run(context, run_id, place)))


@router.post("/experiments/{experiment_id}/move/{place}")
def change_turn_of_experiment(
    context: ContextDep, experiment_id: str, place: Literal["first", "last"], back: Back = ""
) -> Response:
    """Move what waits of an experiment before or behind all others."""
    move_experiment(context, experiment_id, Place(place))
    return _to_page_of_experiment(experiment_id, back)


@router.post("/queue/pause")
def pause_everything(context: ContextDep) -> Response:
    """Put every run aside."""
    pause_all(context)
    return see("/queue")


@router.post("/queue/resume")
def resume_everything(context: ContextDep) -> Response:
    """Have every paused run go on."""
    resume_all(context)
    return see("/queue")


@router.post("/queue/dry-runs/{dry_run_id}/cancel")
def take_dry_run_back(context: ContextDep, dry_run_id: str) -> Response:
    """Take back a dry run that waits or is at work."""
    delete_dry_run(context, dry_run_id)
    return see("/queue")


def _to_page_of_experiment(experiment_id: str, back: str) -> Response:
    return see("/queue" if back == "queue" else f"/experiments/{experiment_id}")
