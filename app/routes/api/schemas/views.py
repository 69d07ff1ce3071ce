"""Saved views."""

from datetime import datetime
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from app.routes.api.schemas.row import Row


class ViewRequest(BaseModel):
    """A page to keep."""

    model_config = ConfigDict(extra="forbid")

    name: Annotated[str, Field(description="What it shows; at most 200 characters.")]
    path: Annotated[
        str,
        Field(
            description="Of a page whose state is in its address: /experiments, /experiments/{id}, /runs/{id}, "
            "/compare, /compare/runs, /measures, /playground, /embeddings, /embeddings/{id} or /encodings/{id}."
        ),
    ]
    query: Annotated[str, Field(description="What follows the question mark; at most 64,000 characters.")] = ""


class ViewOut(Row):
    """A page that was kept."""

    id: Annotated[str, Field(description="/v/{id} answers with the way to the page.")]
    name: str
    path: str
    query: str
    created_at: datetime
