"""What a figure is of: an embedding, or the same rows before and after a method."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from app.db.models import Embedding, Measurement


@dataclass(frozen=True)
class Subject:
    """Something measured, with what figures read of it."""

    name: str
    found: Mapping[str, Measurement]
    """By measure."""
    data: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    """What no single measure holds, by slug: see ``FigureData``."""

    @classmethod
    def of(cls, embedding: Embedding, data: Mapping[str, dict[str, Any]] | None = None) -> "Subject":
        """An embedding, with the data of figures that were read."""
        return cls(embedding.name, {one.measure: one for one in embedding.measurements}, data or {})
