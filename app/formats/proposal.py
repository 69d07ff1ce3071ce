"""The likeliest selection of a file, which the user sees first."""

import re
from collections.abc import Callable, Sequence

from app.formats.contents import MAX_DISTINCT, Annotation, Offer
from app.formats.selection import Selection

VECTOR_NAMES = ("embeddings", "embedding", "vectors", "vector", "x", "features", "hidden_states")
LABEL_NAMES = ("label", "labels", "class", "target", "category", "y", "label_id", "cluster", "group")

MAX_DOUBTFUL = 2

NUMBERED = re.compile(r"(.*?)(\d{1,6})")
MIN_FAMILY = 3


def propose(offer: Offer) -> Selection:
    """Return the array with a telling name or the largest, or the columns that look like a vector, and its annotations.

    Columns that share a name but for a running number, as e0 to e63, are the vector; without such, all columns of
    numbers are.
    """
    if not offer.parts:
        vectors = find_family(offer.numeric_columns) or offer.numeric_columns
        coordinates = set(vectors)
        return _annotated(vectors, [each for each in offer.annotations if each.name not in coordinates])
    part = next(
        (part for name in VECTOR_NAMES for part in offer.parts if part.name.lower() == name),
        max(offer.parts, key=lambda part: part.n * part.d),
    )
    return _annotated(part.name, [each for each in offer.annotations if each.n == part.n])


def find_family(columns: Sequence[str]) -> list[str]:
    """Return the columns of the longest run of names that differ by a running number alone, such as dim_0, dim_1, ...

    Empty where no three columns do.
    """
    families: dict[str, dict[int, str]] = {}
    for column in columns:
        if match := NUMBERED.fullmatch(column):
            families.setdefault(match[1], {}).setdefault(int(match[2]), column)
    runs = [family for family in families.values() if max(family) - min(family) == len(family) - 1]
    longest = max(runs, key=len, default={})
    return [column for column in columns if column in set(longest.values())] if len(longest) >= MIN_FAMILY else []


def excluded(offer: Offer, selection: Selection) -> list[str]:
    """Return the columns of numbers that are no part of the vectors, and neither name nor label the rows."""
    if isinstance(selection.vectors, str):
        return []
    used = {*selection.vectors, selection.names, selection.labels}
    return [column for column in offer.numeric_columns if column not in used]


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
