"""What the dashboard serves of this feature."""

from app.feature import Feature

FEATURE = Feature(api=(), pages=("app.documentation.pages:router",))
