"""Bases of records: no field but those that are named, and of what is found in files none that changes."""

from pydantic import BaseModel, ConfigDict


class Strict(BaseModel):
    """A record that refuses a field it does not name."""

    model_config = ConfigDict(extra="forbid")


class Frozen(Strict):
    """One that does not change either."""

    model_config = ConfigDict(frozen=True)
