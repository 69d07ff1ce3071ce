"""The routers of this feature."""

from app.feature import Feature

FEATURE = Feature(
    api=("app.operations.api:router", "app.operations.api:samples_router", "app.operations.api:health_router"),
    pages=("app.operations.pages:router",),
)
