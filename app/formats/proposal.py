"""The likeliest selection of a file, which the user sees first."""

from collections.abc import Callable

from app.formats.contents import MAX_DISTINCT, Annotation, Offer
from app.formats.selection import Selection

VECTOR_NAMES = ("embeddings", "embedding", "vectors", "vector", "x", "features", "hidden_states")
LABEL_NAMES = ("label", "labels", "class", "target", "category", "y", "label_id", "cluster", "group")

MAX_DOUBTFUL = 2


def propose(offer: Offer) -> Selection:
    """Return the array with a telling name or the largest, or all columns of numbers, and what fits beside it."""
    if not offer.parts:
        coordinates = set(offer.numeric_columns)
        return _annotated(offer.numeric_columns, [each for each in offer.annotations if each.name not in coordinates])
    part = next(
        (part for name in VECTOR_NAMES for part in offer.parts if part.name.lower() == name),
        max(offer.parts, key=lambda part: part.n * part.d),
    )
    return _annotated(part.name, [each for each in offer.annotations if each.n == part.n])


def doubtful(offer: Offer, selection: Selection) -> list[Annotation]:
    """Return the one or two columns of whole numbers among coordinates that have fractions: they may be labels."""
    if isinstance(selection.vectors, str):
        return []
    chosen = set(selection.vectors)
    whole = [each for each in offer.annotations if each.name in chosen and each.n_distinct <= MAX_DISTINCT]
    return whole if len(whole) <= MAX_DOUBTFUL < len(chosen) - len(whole) else []


def _annotated(vectors: str | list[str], annotations: list[Annotation]) -> Selection:
    label = _first(annotations, lambda each: each.name.lower() in LABEL_NAMES and each.n_distinct <= MAX_DISTINCT)
    label = label or _first(annotations, lambda each: 2 <= each.n_distinct <= min(MAX_DISTINCT, each.n // 2))
    rest = [each for each in annotations if each.name != label]
    name = _first(rest, lambda each: each.n_distinct > MAX_DISTINCT or each.n_distinct == each.n)
    return Selection(vectors=vectors, names=name, labels=label)


def _first(annotations: list[Annotation], fits: Callable[[Annotation], bool]) -> str | None:
    return next((each.name for each in annotations if fits(each)), None)
