"""Routes of this feature."""

from app.feature import Feature

FEATURE = Feature(
    api=("app.tasks.api:embedding_router", "app.tasks.api:router"),
    pages=("app.tasks.pages:embedding_router", "app.tasks.pages:router"),
)
