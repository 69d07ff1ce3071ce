"""The JSON API: everything a page can do."""

from typing import Any

from fastapi import APIRouter

from app.problems import Problem
from app.routes.api import (
    archives,
    comparison,
    datasets,
    embeddings,
    encodings,
    experiments,
    figures,
    measures,
    openings,
    postprocess,
    queue,
    runs,
    space,
    views,
)

PROBLEMS = {
    400: "The request cannot be read.",
    401: "The access token is missing or wrong.",
    403: "A page of another site asked for this change.",
    404: "There is no such thing, or no longer.",
    409: "The thing is in a state in which this cannot be done.",
    413: "The body is larger than the limit.",
    415: "The file is of a kind that is not read here.",
    421: "The server does not answer to this name.",
    422: "A value, or what a file holds, cannot be used; `field` names which.",
    429: "Too many uploads at once; `Retry-After` says when to come back.",
    500: "Isoscope failed. Find the number in `detail` in its log.",
    503: "What keeps the files or rows is busy or cannot be reached at the moment.",
    507: "A disk is full, or would be left with less than its reserve.",
}
RESPONSES: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem, "description": description} for status, description in PROBLEMS.items()
}

ROUTERS = (
    embeddings.router,
    encodings.router,
    embeddings.tags_router,
    comparison.router,
    comparison.runs_router,
    space.trash_router,
    postprocess.router,
    datasets.router,
    datasets.dry_runs_router,
    archives.router,
    experiments.router,
    openings.router,
    experiments.presets_router,
    experiments.studies_router,
    runs.router,
    queue.router,
    figures.router,
    measures.router,
    measures.playground_router,
    views.router,
    space.router,
    queue.health_router,
)

router = APIRouter(prefix="/api", responses=RESPONSES)
for one in ROUTERS:
    router.include_router(one)
