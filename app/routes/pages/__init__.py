"""The HTML pages: each handler asks a service and fills a template."""

from fastapi import APIRouter

from app.routes.pages import (
    across,
    archives,
    comparison,
    datasets,
    description,
    embeddings,
    encodings,
    experiments,
    home,
    lab,
    library,
    openings,
    pausing,
    playground,
    queue,
    report,
    runs,
    study_form,
    sweep,
    sweep_file,
    trash,
    views,
)

MODULES = (
    home,
    library,
    trash,
    description,
    embeddings,
    report,
    lab,
    comparison,
    across,
    encodings,
    datasets,
    sweep,
    study_form,
    sweep_file,
    archives,
    experiments,
    openings,
    runs,
    pausing,
    playground,
    queue,
    views,
)

router = APIRouter(include_in_schema=False)
for module in MODULES:
    router.include_router(module.router)
