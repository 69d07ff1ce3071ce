"""The HTML pages: each handler asks a service and fills a template."""

from fastapi import APIRouter

from app.routes.pages import (
    comparison,
    datasets,
    description,
    embeddings,
    experiments,
    home,
    library,
    measures,
    queue,
    runs,
    shrinkage,
    sweep,
    trash,
)

MODULES = (
    home,
    library,
    trash,
    description,
    embeddings,
    shrinkage,
    comparison,
    datasets,
    sweep,
    experiments,
    runs,
    measures,
    queue,
)

router = APIRouter(include_in_schema=False)
for module in MODULES:
    router.include_router(module.router)
