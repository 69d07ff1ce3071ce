"""Configuration and results of a task run: the document that ``isoscope decide --json`` prints."""

from typing import Annotated, Literal

from pydantic import Field, FiniteFloat

from app.db.config import Seed
from isoscope.core.errors import InvalidError
from isoscope.files.strict import Frozen
from isotropy.catalog import METHODS, METRICS, TASKS, Similarity, TruthKind
from isotropy.catalog.calibration import Calibration

Column = Annotated[str, Field(max_length=200)]


class TaskConfig(Frozen):
    """Ground truth columns, metric and similarity of a task."""

    kind: TruthKind
    similarity: Similarity = Similarity.COSINE
    # None: the first metric of the kind.
    metric: str | None = None
    labels: Column | None = None
    # Column that groups queries, pairs or rows that depend on each other.
    groups: Column | None = None
    ids: Column | None = None
    # Columns of ids. None: the likeliest column, or row numbers.
    query_ids: Column | None = None
    seed: Seed = 0
    # Whether to try all methods, dimensions and storages: several hundred variants instead of 40.
    full: bool = False
    tolerance: Annotated[FiniteFloat, Field(ge=0, le=1)] = 0.01
    # Minimum score of a match, for pairs with scores other than 0 and 1.
    match: FiniteFloat | None = None
    remedies: bool = False
    """Whether to judge only post-processings, on few enough rows to take seconds."""

    @property
    def judged_by(self) -> str:
        return self.metric or TASKS[self.kind].metrics[0]

    @property
    def metric_title(self) -> str:
        return METRICS[self.judged_by]

    def is_comparable_to(self, second: "TaskConfig") -> bool:
        """Return whether scores can be compared with another task's: all but id columns and ``match`` agree."""
        ignored_fields = {"ids": None, "query_ids": None, "match": None}
        own_config, second_config = (
            config.model_copy(update=ignored_fields | {"metric": config.judged_by}) for config in (self, second)
        )
        return own_config == second_config

    def check(self, score_range: tuple[float, float] | None = None) -> None:
        """Raise InvalidError if a field does not suit the kind of ground truth, or ``match`` the range of its scores.

        The range is that of pairs with scores other than 0 and 1; None without such pairs, or before they are read.
        """
        if self.metric is not None and self.metric not in TASKS[self.kind].metrics:
            offered = ", ".join(TASKS[self.kind].metrics)
            raise InvalidError(f"Expected a metric among {offered} for {self.kind}, got {self.metric}.", "metric")
        if self.kind is TruthKind.LABELS and self.labels is None:
            raise InvalidError("Choose the column of labels.", "labels")
        if self.match is not None and self.kind is not TruthKind.PAIRS:
            raise InvalidError("Only pairs with scores have a minimum score of a match. Leave it out.", "match")
        if self.match is not None and score_range is not None and not score_range[0] < self.match <= score_range[1]:
            low, high = score_range
            raise InvalidError(f"Expected a score above {low:g} and at most {high:g}, got {self.match:g}.", "match")


class Parts(Frozen):
    """Number of queries, pairs or labeled rows in the parts to fit maps, to choose a variant and to report scores."""

    fit: int
    choose: int
    report: int


class ChoiceScore(Frozen):
    """The score on the choose part, and its difference from the unchanged vectors' score.

    The 95% intervals hold for all variants simultaneously. The differences are null in results of version 0.1.
    """

    value: FiniteFloat
    difference: FiniteFloat | None = None
    difference_low: FiniteFloat | None = None
    difference_high: FiniteFloat | None = None


class SmallestDifference(Frozen):
    """The smallest variant's score minus the chosen one's on the report part, with its 95% interval."""

    difference: FiniteFloat
    low: FiniteFloat
    high: FiniteFloat


class ReportScore(Frozen):
    """The score on the report part, and its difference from the unchanged vectors' score, with 95% intervals."""

    value: FiniteFloat
    low: FiniteFloat
    high: FiniteFloat
    difference: FiniteFloat
    difference_low: FiniteFloat
    difference_high: FiniteFloat


class FoundRow(Frozen):
    """The id of a corpus row, and the number of queries that find it."""

    id: str
    queries: int


class QueryHubness(Frozen):
    """How unequally often corpus rows are among the k found by a query: see ``isotropy.tasks.search``."""

    k: int
    queries: int
    skewness: float | None
    # Share of corpus rows that no query finds.
    never: float
    hubs: list[FoundRow]


class JudgedVariant(Frozen):
    """A post-processing with dimensions and storage, and its scores."""

    name: str
    method: str
    parameters: dict[str, int | float]
    dimensions: str
    storage: str
    bytes: int
    isoscore: float | None
    choose: ChoiceScore
    report: ReportScore
    recall_of_exact: float | None

    @property
    def changes_vectors(self) -> bool:
        """Return whether the variant changes the vectors, not only how they are stored."""
        return self.method in METHODS or self.dimensions != "all"


class ScoreSoFar(Frozen):
    """The score of a variant on the choose part, while others are still being evaluated."""

    name: str
    bytes: int
    isoscore: float | None
    choose: FiniteFloat


class TaskResults(Frozen):
    """All variants of a task. ``baseline``, ``chosen`` and ``smallest`` are positions in ``variants``."""

    task: TruthKind
    metric: str
    similarity: Similarity
    n: int
    d: int
    parts: Parts
    variants: list[JudgedVariant]
    baseline: int
    chosen: int
    smallest: int
    smallest_difference: SmallestDifference | None = None
    """Null in results of version 0.1."""
    conclusion: str
    hubness: dict[Literal["baseline", "chosen"], QueryHubness] = Field({})
    """Empty for tasks without queries, and for those that an earlier version evaluated."""
    calibration: Calibration | None = None
    """Null for compression, where the ground truth gives no cutoff, and in results of earlier versions."""


MapVariant = Literal["chosen", "smallest"]
MapFile = Literal["chosen", "smallest", "cutoff"]
Side = Literal["corpus", "queries"]


class TaskMaps(Frozen):
    """Lines of Python that apply each map with only NumPy."""

    chosen: str
    smallest: str
