"""What makes two results of an embedding the same: look-ups of a row, trials of a method."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from sqlalchemy import select

from app.db.models import Embedding, EmbeddingStatus, Lookup, PostProcessing


def lookup_key(embedding: Embedding, name: str) -> str:
    """Return the key of a name among the vectors that are chosen of an embedding at present."""
    return hashlib.sha256(json.dumps([embedding.selection, name], sort_keys=True).encode()).hexdigest()


def is_current(lookup: Lookup, embedding: Embedding) -> bool:
    """Return whether it was asked for of the vectors that are chosen now."""
    return lookup.key == lookup_key(embedding, lookup.name)


SEED = 0
"""Of the rows that are drawn from an embedding, and of the half of them that methods are fitted on."""
IN_USE = select(Embedding.made_by_id).where(
    Embedding.status == EmbeddingStatus.MAKING, Embedding.made_by_id.is_not(None)
)
"""Trials and tasks whose maps are making embeddings."""


def postprocess_key(embedding: Embedding, method: str, parameters: Mapping[str, Any]) -> str:
    """The key of a method on the vectors that are chosen of an embedding at present."""
    parts = [embedding.selection, method, parameters]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def is_of(postprocessing: PostProcessing, embedding: Embedding) -> bool:
    """Whether it was asked for of the vectors that are chosen now, and not of others chosen before."""
    return postprocessing.key == postprocess_key(embedding, postprocessing.method, postprocessing.parameters)
