"""The routers of this feature."""

from app.feature import Feature

FEATURE = Feature(api=(), pages=("app.documentation.pages:router",))
