"""What must be told of an embedding that a method made: rows that it was fitted on flatter it."""

from typing import NamedTuple
from urllib.parse import urlencode

from app.db.models import Embedding, PostProcessing
from isotropy.catalog import METHODS


class FittedNote(NamedTuple):
    """How many of its rows a method was fitted on, and what the others say."""

    fit_rows: int
    rows: int
    isoscore: float | None
    """Of rows held out, bias-corrected; None where that is not kept or is undefined."""
    lab: str
    """The URL of the trial; empty where its embedding is gone."""


def fitted_note(embedding: Embedding, trial: PostProcessing | None) -> FittedNote | None:
    """The note of an embedding that was made here by ``trial``, if that is kept; None where it was not made."""
    made = embedding.provenance
    if not made or "fit_rows" not in made:
        return None
    after = ((trial.results if trial else None) or {}).get("after", {})
    isoscore = after.get("isoscore_unbiased", {}).get("value")
    return FittedNote(made["fit_rows"], embedding.n_measured, isoscore, _lab(embedding))


def _lab(embedding: Embedding) -> str:
    made = embedding.provenance or {}
    if embedding.source_id is None or made["method"] not in METHODS:
        return ""
    return f"/embeddings/{embedding.source_id}/lab?{urlencode({'method': made['method'], **made['parameters']})}"
