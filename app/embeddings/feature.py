"""The routers and row lists of this feature."""

from app.feature import Feature

FEATURE = Feature(
    api=(
        "app.embeddings.api.embeddings:router",
        "app.embeddings.api.encodings:router",
        "app.embeddings.api.embeddings:tags_router",
        "app.embeddings.api.measures:readings_router",
        "app.embeddings.api.comparison:router",
        "app.embeddings.api.embeddings:trash_router",
        "app.embeddings.api.measures:router",
    ),
    pages=(
        "app.embeddings.pages.library:router",
        "app.embeddings.pages.library:trash_router",
        "app.embeddings.pages.report:description_router",
        "app.embeddings.pages.report:router",
        "app.embeddings.pages.report:report_router",
        "app.embeddings.pages.comparison:router",
        "app.embeddings.pages.encodings:router",
    ),
    row_lists=("app.embeddings.library:EMBEDDINGS",),
)
