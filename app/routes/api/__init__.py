"""The JSON API: everything a page can do."""

from typing import Any

from fastapi import APIRouter

from app.problems import Problem
from app.routes.api import (
    across,
    archives,
    comparison,
    datasets,
    dry_runs,
    embeddings,
    encodings,
    experiments,
    figures,
    health,
    measures,
    openings,
    playground,
    postprocess,
    presets,
    queue,
    run_list,
    runs,
    space,
    studies,
    tags,
    trash,
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
    500: "Isoscope failed; `detail` has the number under which its log tells why.",
    503: "What keeps the files or rows is busy or cannot be reached at the moment.",
    507: "A disk is full, or would be left with less than its reserve.",
}
RESPONSES: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem, "description": description} for status, description in PROBLEMS.items()
}

MODULES = (
    embeddings,
    encodings,
    tags,
    comparison,
    across,
    trash,
    postprocess,
    datasets,
    dry_runs,
    archives,
    experiments,
    openings,
    presets,
    studies,
    run_list,
    runs,
    queue,
    figures,
    measures,
    playground,
    views,
    space,
    health,
)

router = APIRouter(prefix="/api", responses=RESPONSES)
for module in MODULES:
    router.include_router(module.router)
