"""Routers of this feature."""

from app.feature import Feature

FEATURE = Feature(
    api=(
        "app.results.api.across:runs_router",
        "app.results.api.experiments:archives_router",
        "app.results.api.experiments:router",
        "app.results.api.openings:router",
        "app.results.api.experiments:presets_router",
        "app.results.api.experiments:studies_router",
        "app.results.api.runs:router",
    ),
    pages=(
        "app.results.pages.across:router",
        "app.results.pages.experiments:archives_router",
        "app.results.pages.experiments:description_router",
        "app.results.pages.experiments:router",
        "app.results.pages.runs:router",
        "app.results.pages.runs:buttons_router",
    ),
)
