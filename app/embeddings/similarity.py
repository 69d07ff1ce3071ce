"""By which similarity neighbors are near: what forms offer, and what measurements say."""

from app.db.models import Measurement
from isoscope.core.formatting import capitalized
from isotropy.catalog import SIMILARITIES, Similarity

CHOICES = {"": "Default"} | {one.value: capitalized(title) for one, title in SIMILARITIES.items()}
"""What the form of a draft offers, by the value that it sends."""


def similarity_of(found: Measurement) -> Similarity:
    """Return by which neighbors were near; earlier versions measured by Euclidean distance alone."""
    return Similarity((found.detail or {}).get("similarity", Similarity.EUCLIDEAN))
