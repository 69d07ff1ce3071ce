"""Settings of the papers."""

from typing import Annotated, Any

from pydantic import Field

from app.routes.api.schemas.row import Row
from app.services.presets import Stage


class PresetOut(Row):
    """The settings of a stage of a paper."""

    slug: Stage
    title: str
    paper: str
    what: str
    settings: Annotated[dict[str, Any], Field(description="Fields for the body of `POST /api/experiments`.")]
    models: Annotated[list[str], Field(description="Those of the paper, by their names on the Hub.")]
    differs: Annotated[list[str], Field(description="Where text and code disagree, and which is followed.")]
