"""What is in the trash, and what left it for good."""

from typing import Annotated

from pydantic import Field

from app.routes.api.schemas.embeddings import EmbeddingSummary
from app.routes.api.schemas.row import Row


class TrashedOut(Row):
    """An embedding in the trash."""

    embedding: EmbeddingSummary
    frees_bytes: Annotated[int, Field(description="What purging it alone would free.")]


class TrashOut(Row):
    """A page of what is in the trash."""

    rows: list[TrashedOut]
    total: Annotated[int, Field(description="Rows on all pages.")]
    frees_bytes: Annotated[
        int, Field(description="What purging all would free; more than the sum where two need the same file.")
    ]


class PurgedOut(Row):
    """What is gone."""

    embeddings: int
    freed_bytes: int
