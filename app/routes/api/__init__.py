"""The JSON API: everything a page can do."""

from typing import Any

from fastapi import APIRouter

from app.problems import Problem
from app.routes.api import datasets, embeddings, experiments, health, runs

PROBLEMS: dict[int | str, dict[str, Any]] = {status: {"model": Problem} for status in (404, 409, 413, 415, 422)}

router = APIRouter(prefix="/api", responses=PROBLEMS)
for module in (embeddings, datasets, experiments, runs, health):
    router.include_router(module.router)
