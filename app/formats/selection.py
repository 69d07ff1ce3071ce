"""Which part of a file is the matrix of vectors, and which hold the names and the labels of its rows."""

from typing import Any

from pydantic import BaseModel, ConfigDict, model_validator

from app.formats.contents import MAX_DISTINCT, Offer
from app.formats.quoting import Quoting
from app.formats.wording import listed, shown
from isoscope.core.errors import InvalidError


class Selection(BaseModel):
    """What a user chose of a file.

    ``vectors`` is the name of an array or of a column of lists, or the names of columns of numbers, in order.
    A column that names or labels the rows is none of their coordinates, even if it is among those named.
    Rows of one of the ``groups``, such as sentences of one document, depend on each other.
    ``transpose`` takes the columns of that matrix as the samples: "rows are samples" switched off.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    vectors: str | list[str]
    names: str | None = None
    labels: str | None = None
    groups: str | None = None
    transpose: bool = False
    quoting: Quoting | None = None
    """How the quotes of .tsv files are read; null for as they are meant (see ``app.formats.quoting``)."""

    @model_validator(mode="before")
    @classmethod
    def _without_annotations(cls, given: Any) -> Any:
        if not isinstance(given, dict) or not isinstance(given.get("vectors"), list):
            return given
        annotations = given.get("names"), given.get("labels"), given.get("groups")
        return {**given, "vectors": [column for column in given["vectors"] if column not in annotations]}

    def check(self, offer: Offer) -> None:
        """Raise InvalidError, with the field at fault, unless the file (an ``Inspection``, say) offers this."""
        n = self._check_array(offer) if offer.parts else self._check_columns(offer)
        self._check_annotation(offer, "names", self.names, n)
        self._check_annotation(offer, "labels", self.labels, n)
        self._check_annotation(offer, "groups", self.groups, n)

    def _check_array(self, offer: Offer) -> int | None:
        """Return the number of samples of the chosen array."""
        for part in offer.parts:
            if part.name == self.vectors:
                return part.d if self.transpose else part.n
        raise InvalidError(
            f"The file has no array {str(self.vectors)[:80]!r} that could hold the vectors: "
            f"choose one of {listed([part.name for part in offer.parts])}.",
            field="vectors",
        )

    def _check_columns(self, offer: Offer) -> int | None:
        """Return the number of samples of the chosen columns, None where it is not known from the columns alone."""
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
                    f"The file has no column {shown(column)} of numbers: choose among {listed(offer.numeric_columns)}.",
                    field="vectors",
                )
        if len(set(self.vectors)) < len(self.vectors):
            raise InvalidError("A column was chosen twice for the vectors: choose each once.", field="vectors")
        return len(self.vectors) if self.transpose else None

    def _check_annotation(self, offer: Offer, field: str, chosen: str | None, n: int | None) -> None:
        if chosen is None:
            return
        annotation = next((each for each in offer.annotations if each.name == chosen), None)
        if annotation is None:
            there = [each.name for each in offer.annotations]
            advice = f"choose one of {listed(there)}, or none" if there else "it has nothing to choose here"
            raise InvalidError(f"The file has nothing called {shown(chosen)} for the {field}: {advice}.", field)
        if n is not None and annotation.n != n:
            raise InvalidError(
                f"{shown(chosen)} has {annotation.n:,} values, but the matrix has {n:,} rows: "
                "choose one of the same length, or swap rows and columns.",
                field,
            )
        if field == "labels" and annotation.n_distinct > MAX_DISTINCT:
            raise InvalidError(
                f"{shown(chosen)} has more than {MAX_DISTINCT:,} different values, which looks like names: "
                "choose it as the names, and for the labels something with fewer values.",
                field,
            )
