"""The record of a measure in the catalog, and its values on known clouds."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from math import inf
from typing import Literal, NamedTuple

ErrorKind = Literal["none", "population", "sample"]
Comparability = Literal["never", "at equal n", "at any n"]
MeasureGroup = Literal["spread", "directions", "neighbors", "topology", "labels"]
MeasurePage = Literal["report", "layers", "lab", "lab figures", "training", "results"]

# Where measures appear in addition to the full table of every report.
MEASURE_PAGES: dict[MeasurePage, str] = {
    "report": "the head of a report",
    "layers": "the layers of an encoding",
    "lab": "before and after post-processing",
    "lab figures": "figures of post-processing",
    "training": "layers while runs train",
    "results": "layers of finished runs, one vector a text",
}
# Words for ranges with an infinite end, by prefix; the longest prefix first.
INFINITE_RANGES = {
    "(−∞, ∞), about [0, 1]": "usually 0 to 1; estimates can fall outside",
    "(−∞, ∞), about [1, d]": "usually 1 to d; estimates can fall outside",
    "(−∞, ∞)": "any number",
    "(−∞, 0]": "at most 0",
    "(0, ∞)": "above 0",
    "[0, ∞)": "at least 0",
}


@dataclass(frozen=True, kw_only=True)
class Measure:
    """A measure, described in plain text. X is the cloud [n, d], S its covariance, λ the eigenvalues of S."""

    slug: str
    group: MeasureGroup
    name: str
    symbol: str
    # Slug of the main measure under which this one is listed; empty for a main measure.
    variant_of: str = ""
    value: str = ""  # The reported value, if the measure has several values or settings; else empty
    is_count: bool = False  # Whether that value is a count
    range: str  # Range of that value
    # The ends of `range` for n points, at least 1 dimension: for programs; None where an end is infinite.
    bounds: Callable[[int, int], tuple[float, float]] | None = None
    formula: str
    meaning: str
    pitfall: str
    citation: str
    higher_means: Literal["more isotropic", "less isotropic", "neither"]
    # Meaning of its standard error: that of an estimate of the population's value; for a biased measure, the spread
    # between samples of as many rows; or none.
    error: ErrorKind = "none"
    bias: str = ""  # How the number of rows shifts the value; empty if it does not, or if unknown
    corrected: str = ""  # Slug of the bias-corrected form, to use where rows are a sample
    # Pages and figures that show it unless others are chosen, each in the catalog's order.
    shown_in: tuple[MeasurePage, ...] = ()
    listed_with: str = ""  # Slug of the related measure next to which reports list it
    count_details: tuple[str, ...] = ()  # Parts of its detail that count something
    # Number of values, k = 1 and up, measured on layers while runs train; 0 for a single number.
    leading_values: int = 0
    # Whether runs measure one vector per text, for independent rows, in place of tokens.
    per_text: bool = False
    training_caution: str = ""  # Caveat for the few points measured while runs train

    @property
    def compared(self) -> Comparability:
        """Return whether values of two embeddings can be compared with an interval: at any n, at equal n or never."""
        return COMPARABILITY[self.error]

    @property
    def error_sentence(self) -> str:
        return ERROR_SENTENCES[self.error] if not self.corrected else ROWS_ONLY

    @property
    def range_text(self) -> str:
        """Return the range, in words where an end is infinite."""
        infinite = next((prefix for prefix in INFINITE_RANGES if self.range.startswith(prefix)), "")
        return INFINITE_RANGES.get(infinite, "") + self.range.removeprefix(infinite)

    @property
    def value_names(self) -> tuple[str, ...]:
        """Return the names of its values in layers of runs: its slug, or one name for each leading value."""
        return tuple(f"{self.slug}_{k}" for k in range(1, self.leading_values + 1)) or (self.slug,)

    def bounds_for(self, n: int, d: int) -> tuple[float, float] | None:
        """Return the ends of ``range`` for n points in d dimensions; None without bounds or if the ends coincide."""
        if self.bounds is None:
            return None
        low, high = self.bounds(n, d)
        return (low, high) if low < high else None

    @property
    def widest_bounds(self) -> tuple[float, float]:
        """Return the smallest and largest value for any numbers of points and dimensions; infinite without bounds."""
        ends = [self.bounds(size, size) for size in (2, 2**40)] if self.bounds else [(-inf, inf)]
        return min(low for low, _ in ends), max(high for _, high in ends)


COMPARABILITY: dict[ErrorKind, Comparability] = {"none": "never", "population": "at any n", "sample": "at equal n"}
ERROR_SENTENCES: dict[ErrorKind, str] = {
    "none": "The value has no standard error.",
    "population": "SE is the standard error of an estimate of the population's value.",
    "sample": "SE is how much the value varies between samples of this size. It does not cover the bias.",
}
ROWS_ONLY = "The value describes these rows only. It has no SE: read the bias-corrected form for the population."


def between(low: float, high: float) -> Callable[[int, int], tuple[float, float]]:
    return lambda n, d: (low, high)


def up_to_rank(n: int, d: int) -> tuple[float, float]:
    """Return 1 and the maximum rank of n centered points."""
    return 1, min(n - 1, d)


TABLE = "reference_values.json"  # Made by `python -m benchmarks.reference_values`


class ReferenceScore(NamedTuple):
    """A measure of a known cloud."""

    value: float
    se: float | None
    n: int  # Rows behind the value: fewer than the cloud's if the measure takes a sample


class ReferenceCloud(NamedTuple):
    """A known cloud, with its number of rows and dimensions, on which its values depend."""

    name: str
    about: str
    n: int
    d: int
    values: Mapping[str, ReferenceScore]  # By measure slug; undefined measures are left out


@cache
def references() -> tuple[ReferenceCloud, ...]:
    """Return the known clouds in display order: generated ones, then the bundled encoder by layer."""
    table = json.loads(files("isotropy.catalog").joinpath(TABLE).read_text(encoding="utf-8"))
    return tuple(
        ReferenceCloud(
            **entry | {"values": {slug: ReferenceScore(*numbers) for slug, numbers in entry["values"].items()}}
        )
        for entry in table
    )
