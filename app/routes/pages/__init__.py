"""The HTML pages: each handler asks a service and fills a template."""

from fastapi import APIRouter

from app.routes.pages import (
    datasets,
    embeddings,
    encodings,
    experiments,
    home,
    measures,
    queue,
    runs,
    shrinkage,
    sweep,
)

router = APIRouter(include_in_schema=False)
for module in (home, embeddings, shrinkage, encodings, datasets, sweep, experiments, runs, measures, queue):
    router.include_router(module.router)
