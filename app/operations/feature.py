"""The routers of this feature."""

from app.feature import Feature

FEATURE = Feature(
    api=tuple(f"app.operations.api:{name}" for name in ("router", "samples_router", "health_router", "access_router")),
    pages=("app.operations.pages:router", "app.operations.pages:access_router"),
)
