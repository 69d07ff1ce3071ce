"""The HTML pages: each handler asks a service and fills a template."""

from fastapi import APIRouter

from app.routes.pages import (
    datasets,
    embeddings,
    experiments,
    files,
    home,
    lab,
    measures,
    playground,
    queue,
    report,
    runs,
    shrinkage,
    sweep,
)

router = APIRouter(include_in_schema=False)
for module in (
    home,
    embeddings,
    report,
    shrinkage,
    lab,
    files,
    datasets,
    sweep,
    experiments,
    runs,
    measures,
    playground,
    queue,
):
    router.include_router(module.router)
