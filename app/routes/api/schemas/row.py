"""Answers that are read off rows."""

from pydantic import BaseModel, ConfigDict


class Row(BaseModel):
    """Base of all answers made from a row."""

    model_config = ConfigDict(from_attributes=True)
