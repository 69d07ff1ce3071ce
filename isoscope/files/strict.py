"""Base classes of records: they refuse unknown fields, and frozen ones cannot change."""

from pydantic import BaseModel, ConfigDict


class Strict(BaseModel):
    """A record that refuses a field it does not name."""

    model_config = ConfigDict(extra="forbid")


class Frozen(Strict):
    """A strict record that cannot change."""

    model_config = ConfigDict(frozen=True)
