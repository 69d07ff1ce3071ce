"""The routers of this feature."""

from app.feature import Feature

FEATURE = Feature(api=("app.playground.api:playground_router",), pages=("app.playground.pages:router",))
