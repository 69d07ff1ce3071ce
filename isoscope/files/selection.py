"""The selection of vectors, names and labels in a file, and the likeliest one."""

import re
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, model_validator

from isoscope.core.errors import InvalidError
from isoscope.core.formatting import listed, quote
from isoscope.files.contents import MAX_DISTINCT, Annotation, Offer
from isoscope.files.strict import Frozen
from isoscope.files.text import Quoting
from isotropy.catalog import Similarity

VECTOR_NAMES = ("embeddings", "embedding", "vectors", "vector", "x", "features", "hidden_states")
ID_NAMES = ("id", "_id", "ids", "doc_id", "docid", "corpus-id", "corpus_id", "query-id", "query_id", "qid")
LABEL_NAMES = ("label", "labels", "class", "target", "category", "y", "label_id", "cluster", "group")
# Maximum number of integer columns that are offered as possible labels.
MAX_POSSIBLE_LABELS = 2
NUMBERED = re.compile(r"(.*?)(\d{1,6})")
# Minimum number of columns with consecutive numbers that are taken as the vectors.
MIN_NUMBERED_COLUMNS = 3
# Maximum number of rows or dimensions stored as a list.
MAX_LISTED = 100_000
# Maximum number of rows that a selection excludes; more than ``MAX_LISTED`` are stored as bits.
MAX_EXCLUDED_ROWS = 1_000_000
# Maximum number of those bits, one per row of the file: 1.3 MB in base64.
MAX_BITS = 8_000_000


def _pack_rows(numbers: list[int]) -> list[int] | str:
    """Encode a long list of numbers as a base64 bitmap; 0 is the highest bit of the first byte."""
    if len(numbers) <= MAX_LISTED:
        return numbers
    bits = np.zeros(numbers[-1] + 1, np.bool_)
    bits[numbers] = True
    return b64encode(np.packbits(bits).tobytes()).decode()


def unpack_rows(stored: object) -> Any:
    if not isinstance(stored, str):
        return stored
    if len(stored) > MAX_BITS // 6 + 4:
        raise ValueError(f"Expected at most {MAX_BITS:,} bits in base64.")
    # Invalid base64 raises ValueError too.
    bits = np.frombuffer(b64decode(stored, validate=True), np.uint8)
    return np.flatnonzero(np.unpackbits(bits)).tolist()


InOrder = AfterValidator(lambda numbers: sorted(set(numbers)))
Dimensions = Annotated[list[Annotated[int, Field(ge=0)]], Field(max_length=MAX_LISTED), InOrder]
Rows = Annotated[
    list[Annotated[int, Field(ge=0)]],
    Field(max_length=MAX_EXCLUDED_ROWS),
    InOrder,
    BeforeValidator(unpack_rows),
    PlainSerializer(_pack_rows),
]


class Selection(Frozen):
    """What a user chose of a file.

    ``vectors`` is an array, a column of lists, or columns of numbers in order; annotations are never coordinates.
    Rows of one of the ``groups``, such as sentences of one document, depend on each other. ``transpose``: columns are
    the samples. ``without_rows`` are positions in the file, from 0. Neighbors and hubs are by ``similarity``.
    """

    vectors: str | list[str]
    names: str | None = None
    labels: str | None = None
    groups: str | None = None
    transpose: bool = False
    quoting: Quoting | None = None
    without_rows: Rows = Field([])
    without_dimensions: Dimensions = Field([])
    # Version 0.1 stored null for Euclidean distance.
    similarity: Annotated[
        Similarity, BeforeValidator(lambda value: Similarity.EUCLIDEAN if value is None else value)
    ] = Similarity.COSINE

    @property
    def columns(self) -> list[str]:
        if isinstance(self.vectors, str):
            return []
        excluded_numbers = set() if self.transpose else set(self.without_dimensions)
        return [column for number, column in enumerate(self.vectors) if number not in excluded_numbers]

    def with_exclusions_of(self, previous: Mapping[str, Any]) -> Self:
        """Return this selection with the exclusions of an earlier one of the same files that still apply.

        None apply if only one selection is transposed; excluded dimensions apply to the same vectors only.
        """
        earlier = Selection.model_validate(previous)
        if earlier.transpose != self.transpose:
            return self
        same_vectors = earlier.vectors == self.vectors
        exclusions = {
            "without_rows": earlier.without_rows,
            "without_dimensions": earlier.without_dimensions if same_vectors else [],
        }
        return self.model_copy(update=exclusions)

    def remaining(self, n: int, d: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the positions of the remaining rows and dimensions; raise InvalidError if none remain."""
        rows = _remaining_positions(self.without_rows, n, "row", "without_rows")
        return rows, _remaining_positions(self.without_dimensions, d, "dimension", "without_dimensions")

    @model_validator(mode="before")
    @classmethod
    def _without_annotations(cls, fields: Any) -> Any:
        if not isinstance(fields, dict) or not isinstance(fields.get("vectors"), list):
            return fields
        annotations = fields.get("names"), fields.get("labels"), fields.get("groups")
        return {**fields, "vectors": [column for column in fields["vectors"] if column not in annotations]}

    def check(self, offer: Offer) -> None:
        """Raise InvalidError, with the field at fault, unless the file offers what this selects."""
        if not offer.parts:
            n = self._check_columns(offer)
        elif part := next((part for part in offer.parts if part.name == self.vectors), None):
            n = part.d if self.transpose else part.n
        else:
            raise InvalidError(
                f"The file has no array {str(self.vectors)[:80]!r} that could hold the vectors: "
                f"choose one of {listed([part.name for part in offer.parts])}.",
                field="vectors",
            )
        annotations = {annotation.name: annotation for annotation in reversed(offer.annotations)}
        for field, column in (("names", self.names), ("labels", self.labels), ("groups", self.groups)):
            if column is None:
                continue
            if (annotation := annotations.get(column)) is None:
                names = [candidate.name for candidate in offer.annotations]
                advice = f"choose one of {listed(names)}, or none" if names else "it has nothing to choose here"
                raise InvalidError(f"The file has nothing called {quote(column)} for the {field}: {advice}.", field)
            if n is not None and annotation.n != n:
                raise InvalidError(
                    f"{quote(column)} has {annotation.n:,} values, but the matrix has {n:,} rows: "
                    "choose one of the same length, or swap rows and columns.",
                    field,
                )
            if field == "labels" and annotation.n_distinct > MAX_DISTINCT:
                raise InvalidError(
                    f"{quote(column)} has more than {MAX_DISTINCT:,} different values, which looks like names: "
                    "choose it as the names, and for the labels something with fewer values.",
                    field,
                )

    def _check_columns(self, offer: Offer) -> int | None:
        if not self.vectors or isinstance(self.vectors, str):
            raise InvalidError(
                f"Expected a list of columns that hold the vectors, got {self.vectors!r:.80}: "
                f"choose at least one of {listed(offer.numeric_columns)}.",
                field="vectors",
            )
        numeric = set(offer.numeric_columns)
        for column in self.vectors:
            if column not in numeric:
                raise InvalidError(
                    f"The file has no column {quote(column)} of numbers: choose among {listed(offer.numeric_columns)}.",
                    field="vectors",
                )
        if len(set(self.vectors)) < len(self.vectors):
            raise InvalidError("A column was chosen twice for the vectors: choose each once.", field="vectors")
        return len(self.vectors) if self.transpose else None


def _remaining_positions(excluded_numbers: list[int], count: int, noun: str, field: str) -> NDArray[np.int64]:
    if excluded_numbers and excluded_numbers[-1] >= count:
        raise InvalidError(
            f"There is no {noun} {excluded_numbers[-1]:,}: the file has {count:,} {noun}s, which count from 0.", field
        )
    if excluded_numbers and len(excluded_numbers) == count:
        raise InvalidError(f"This leaves no {noun}: all {count:,} are left out. Keep some.", field)
    return np.delete(np.arange(count), excluded_numbers)


def propose(offer: Offer) -> Selection:
    """Return the likeliest vectors, names and labels.

    Prefers an array with a usual name such as embeddings, else the largest, and the last of several layers. Among
    columns, prefers those with consecutive numbers (e0 to e63), else takes all numeric ones.
    """
    vectors: str | list[str]
    if offer.parts:
        usual_parts = (
            part for name in VECTOR_NAMES for part in reversed(offer.parts) if (part.stack or part.name).lower() == name
        )
        vector_part = next(usual_parts, max(offer.parts, key=lambda part: (part.n * part.d, part.layer or 0)))
        vectors = vector_part.name
        annotations = [annotation for annotation in offer.annotations if annotation.n == vector_part.n]
    else:
        families: dict[str, dict[int, str]] = {}
        for column in offer.numeric_columns:
            if match := NUMBERED.fullmatch(column):
                families.setdefault(match[1], {}).setdefault(int(match[2]), column)
        consecutive = [family for family in families.values() if max(family) - min(family) == len(family) - 1]
        longest = set(max(consecutive, key=len, default={}).values())
        coordinates = longest if len(longest) >= MIN_NUMBERED_COLUMNS else set(offer.numeric_columns)
        vectors = [column for column in offer.numeric_columns if column in coordinates]
        annotations = [annotation for annotation in offer.annotations if annotation.name not in coordinates]
    likely_labels = [
        *(annotation for annotation in annotations if annotation.name.lower() in LABEL_NAMES),
        *(annotation for annotation in annotations if 2 <= annotation.n_distinct <= annotation.n // 2),
    ]
    label = next((annotation.name for annotation in likely_labels if annotation.n_distinct <= MAX_DISTINCT), None)
    name_candidates = [
        annotation.name
        for annotation in annotations
        if annotation.name != label and (annotation.n_distinct > MAX_DISTINCT or annotation.n_distinct == annotation.n)
    ]
    # A title says more than an id.
    names = min(name_candidates, key=lambda name: name.lower() in ID_NAMES, default=None)
    return Selection(vectors=vectors, names=names, labels=label)


def excluded_columns(offer: Offer, selection: Selection) -> list[str]:
    """Return columns of numbers that are neither coordinates, names nor labels."""
    if isinstance(selection.vectors, str):
        return []
    used = {*selection.columns, selection.names, selection.labels}
    return [column for column in offer.numeric_columns if column not in used]


def possible_labels(offer: Offer, selection: Selection) -> list[Annotation]:
    """Return one or two integer columns among fractional coordinates, which may be labels; none if there are more."""
    if isinstance(selection.vectors, str):
        return []
    coordinates = set(selection.columns)
    whole_numbers = [
        annotation
        for annotation in offer.annotations
        if annotation.name in coordinates and annotation.n_distinct <= MAX_DISTINCT
    ]
    return whole_numbers if len(whole_numbers) <= MAX_POSSIBLE_LABELS < len(coordinates) - len(whole_numbers) else []
