"""What makes two look-ups of a row the same: the vectors that are chosen of its embedding, and the name."""

import hashlib
import json

from app.db.models import Embedding, Lookup


def key_of(embedding: Embedding, name: str) -> str:
    """Return the key of a name among the vectors that are chosen of an embedding at present."""
    return hashlib.sha256(json.dumps([embedding.selection, name], sort_keys=True).encode()).hexdigest()


def is_current(lookup: Lookup, embedding: Embedding) -> bool:
    """Return whether it was asked for of the vectors that are chosen now."""
    return lookup.key == key_of(embedding, lookup.name)
