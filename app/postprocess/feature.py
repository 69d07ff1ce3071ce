"""Routes of this feature."""

from app.feature import Feature

FEATURE = Feature(
    api=("app.postprocess.api:router",),
    pages=("app.postprocess.pages:router",),
)
