"""Runs of all experiments over the API."""

from typing import Annotated

from fastapi import APIRouter, Query, Response

from app.dependencies import ContextDep
from app.routes.api.paging import TOTAL, Limit, Offset
from app.routes.api.schemas.experiments import RunFound, RunOfExperiment
from app.services import run_search
from app.services.library import PAGE_ROWS
from app.services.run_search import Page, RunQuery

router = APIRouter(prefix="/runs", tags=["runs"])

RunsQ = Annotated[
    str,
    Query(
        description="Words that are part of the experiment, data set or model, and conditions, all of which must hold: "
        "`task:cola lam<0 iso>0.2 seed:0,1 -status:failed`. A field that is none is answered with those that are."
    ),
]
RunsSort = Annotated[str, Query(description="A field, with a minus before it the greatest or newest first.")]


@router.get("", responses=TOTAL)
def list_runs(
    context: ContextDep,
    response: Response,
    q: RunsQ = "",
    sort: RunsSort = "",
    limit: Limit = PAGE_ROWS,
    offset: Offset = 0,
) -> list[RunFound]:
    """Runs of all experiments, of the newest first unless sorted otherwise; how many is in `X-Total-Count`."""
    return answer(run_search.list_runs(context, RunQuery.of(q, sort), limit=limit, offset=offset), response)


def answer(found: Page, response: Response) -> list[RunFound]:
    """The runs of a page, with how many there are on all in the response's header."""
    response.headers["X-Total-Count"] = str(found.total)
    return [
        RunFound(
            **RunOfExperiment.model_validate(run).model_dump(),
            experiment_id=run.experiment_id,
            experiment=run.experiment.name,
            dataset_id=run.experiment.dataset_id,
            dataset=run.experiment.dataset.name,
            model=run.model,
            metric=run.config["metric"],
        )
        for run in found.runs
    ]
