"""The HTML pages: each handler asks a service and fills a template."""

from fastapi import APIRouter

from app.routes.pages import (
    comparison,
    datasets,
    description,
    embeddings,
    encodings,
    experiments,
    files,
    home,
    lab,
    library,
    measures,
    playground,
    queue,
    report,
    runs,
    shrinkage,
    study_form,
    sweep,
    trash,
)

MODULES = (
    home,
    library,
    trash,
    description,
    embeddings,
    report,
    shrinkage,
    lab,
    files,
    comparison,
    encodings,
    datasets,
    sweep,
    study_form,
    experiments,
    runs,
    measures,
    playground,
    queue,
)

router = APIRouter(include_in_schema=False)
for module in MODULES:
    router.include_router(module.router)
