"""The search for the best lambda and zeta of an experiment: ranges, budget, and trials."""

import math
from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Self

from pydantic import Field, model_validator

from app.db.config import Seed, replace_booleans
from app.db.options.option import Group, Option, Options
from app.db.options.regularization import ABOUT_LAMBDA, ABOUT_ZETA, Weight, Zeta
from app.db.states import RunStatus
from isotropy.catalog import REGULARIZERS, Regularizer

TPE = "Bergstra, Bardenet, Bengio & Kégl (2011). Algorithms for Hyper-Parameter Optimization. NeurIPS 2011."
OPTUNA = "Akiba, Sano, Yanase, Ohta & Koyama (2019). Optuna: A Next-generation Hyperparameter Framework. KDD 2019."

if TYPE_CHECKING:
    from app.db.models.runs import Run

ZETA_DIGITS = 4
SEARCH_SPACE = Group("Search space")
BUDGET = Group("Budget")


class Objective(StrEnum):
    """The objective to maximize."""

    PERFORMANCE = "performance"
    PERFORMANCE_AND_ISOTROPY = "performance_and_isotropy"


class Search(Options):
    """Ranges of lambda and zeta, and how they are searched. The baseline at lambda = 0 always runs too."""

    regularizer: Annotated[
        Regularizer,
        Option(
            "Regularizer",
            "Regularizer to search λ for.",
            SEARCH_SPACE,
            words={slug: f"{penalty.name}: {penalty.term}" for slug, penalty in REGULARIZERS.items()},
            details="It is added to the loss with the λ of each trial; the baseline has none.",
        ),
    ] = Regularizer.ISTAR
    lam_low: Annotated[Weight, Option("Minimum λ", "λ < 0 lowers isotropy.", SEARCH_SPACE, **vars(ABOUT_LAMBDA))] = -1.0
    lam_high: Annotated[Weight, Option("Maximum λ", "λ > 0 raises isotropy.", SEARCH_SPACE, **vars(ABOUT_LAMBDA))] = 1.0
    least_size: Annotated[
        float | None,
        Field(gt=0, le=1e6),
        Option(
            "Minimum size of λ",
            "Search |λ| on a log scale from this value on, on both sides of 0. Empty: search λ itself.",
            SEARCH_SPACE,
            none_means="λ itself is searched",
            formula="position = sign(λ) log(|λ| / minimum), |λ| ≥ minimum",
            details="So 0.1 and 0.01 are as far apart as 10 and 1. λ itself is the better choice between −1 and 1.",
        ),
    ] = None
    zeta_low: Annotated[
        Zeta, Option("Minimum ζ", "From 0 to 1. Applies to I-STAR only.", SEARCH_SPACE, **vars(ABOUT_ZETA))
    ] = 0.2
    zeta_high: Annotated[
        Zeta, Option("Maximum ζ", "If it equals the minimum, ζ is not searched.", SEARCH_SPACE, **vars(ABOUT_ZETA))
    ] = 0.2
    objective: Annotated[
        Objective,
        Option(
            "Objective",
            "What the search maximizes.",
            SEARCH_SPACE,
            words={
                Objective.PERFORMANCE: "performance",
                Objective.PERFORMANCE_AND_ISOTROPY: "performance and IsoScore★: the front of both",
            },
            details="With both, there is no single best. A trial is on the front if none beats it in performance and "
            "IsoScore★.",
            measures=("isoscore_star",),
        ),
    ] = Objective.PERFORMANCE
    trials: Annotated[
        int,
        Field(ge=1, le=200),
        Option(
            "Trials",
            "Pairs of λ and ζ to try, each with every seed.",
            BUDGET,
            details="The first few are random. Later trials resemble the best so far.",
            source=f"{TPE} {OPTUNA}",
        ),
    ] = 20
    at_once: Annotated[
        int,
        Field(ge=1, le=32),
        Option(
            "Trials at once",
            "Trials to run at the same time. Use one per worker.",
            BUDGET,
            details="With more at once, each learns less from the others.",
        ),
    ] = 1
    seed: Annotated[
        Seed,
        Option(
            "Search seed",
            "Seed of the search. One worker repeats the same trials.",
            BUDGET,
            details="With several workers, trials end in another order, so later ones differ.",
        ),
    ] = 0
    prune: Annotated[
        bool,
        Option(
            "Prune runs",
            "Stop a run whose metric on the selection rows is below the median of others at its step.",
            BUDGET,
            details="Needs evaluations during training: set best checkpoint or patience in the sweep form.",
            source=OPTUNA,
        ),
    ] = False
    paused: bool = Field(False, description="No further trial starts until it is resumed.")
    over: bool = Field(False, description="No further trial starts.")
    why: str | None = Field(None, max_length=200, description="Why it ended before all trials had started.")

    @model_validator(mode="before")
    @classmethod
    def _reject_booleans_as_numbers(cls, document: Any) -> Any:
        return replace_booleans(document, cls.model_fields)

    @model_validator(mode="after")
    def _check_ranges(self) -> Self:
        if self.regularizer is Regularizer.NONE:
            raise ValueError("expected a regularizer to search lambda for, got none")
        if not self.lam_low < self.lam_high:
            raise ValueError(f"expected `lam_low` below `lam_high`, got {self.lam_low:g} and {self.lam_high:g}")
        if self.zeta_low > self.zeta_high:
            raise ValueError(f"expected `zeta_low` at most `zeta_high`, got {self.zeta_low:g} and {self.zeta_high:g}")
        if self.least_size is not None:
            sizes = [abs(bound) for bound in (self.lam_low, self.lam_high)]
            too_small = [size for size in sizes if size < self.least_size]
            if too_small:
                raise ValueError(
                    "expected `lam_low` and `lam_high` to be at least as large in absolute value as `least_size`, "
                    f"{self.least_size:g}; got {too_small[0]:g}"
                )
        return self

    @property
    def axis(self) -> tuple[float, float]:
        """Return the bounds of the searched axis: of lambda, or of its signed logarithm if ``least_size`` is set."""
        return self.axis_position(self.lam_low), self.axis_position(self.lam_high)

    def axis_position(self, lam: float) -> float:
        """Return the position of a lambda on the searched axis; sizes below ``least_size`` are all at 0."""
        if self.least_size is None:
            return lam
        return math.copysign(math.log(max(abs(lam) / self.least_size, 1.0)), lam)

    def lambda_at(self, position: float) -> float:
        """Return the lambda at a position of the axis, rounded to the displayed digits and clipped to the range."""
        if self.least_size is not None:
            position = math.copysign(self.least_size * math.exp(abs(position)), position)
        return min(max(float(f"{position:.4g}"), self.lam_low), self.lam_high)

    def round_zeta(self, zeta: float) -> float:
        """Round a sampled zeta to the displayed digits; clip it to the range, whose bounds may have more digits."""
        return min(max(round(zeta, ZETA_DIGITS), self.zeta_low), self.zeta_high)


class Trial(NamedTuple):
    """The runs of one lambda and zeta, one per seed. Trial number 0 is the baseline."""

    number: int
    runs: Sequence["Run"]

    @property
    def is_unfinished(self) -> bool:
        return any(not run.status.final for run in self.runs)

    @property
    def pruned(self) -> bool:
        return any(run.status is RunStatus.PRUNED for run in self.runs)

    @property
    def failed(self) -> bool:
        """Return whether a run failed, or finished with an undefined metric."""
        unscored_statuses = (run.status for run in self.runs if run.performance is None)
        return any(status in (RunStatus.FAILED, RunStatus.FINISHED) for status in unscored_statuses)

    @property
    def performance(self) -> float | None:
        """Return the mean over seeds; None unless every seed has a performance."""
        return _mean_if_complete([run.performance for run in self.runs])

    @property
    def isotropy(self) -> float | None:
        """Return the mean IsoScore* over seeds; None unless every seed has one."""
        return _mean_if_complete([run.isoscore_star for run in self.runs])


def group_trials(runs: Sequence["Run"]) -> list[Trial]:
    """Group a search's runs, ordered by position, into trials. The baseline's runs come first, one for each seed."""
    n_seeds = next((index for index, run in enumerate(runs) if run.regularizer is not Regularizer.NONE), len(runs))
    return [
        Trial(number, runs[start : start + n_seeds])
        for number, start in enumerate(range(0, len(runs), max(n_seeds, 1)))
    ]


def pareto_front(points: Sequence[tuple[float, float]]) -> list[int]:
    """Return the ascending indices of all Pareto-optimal points, equal ones included. Both values are maximized."""
    order = sorted(range(len(points)), key=lambda index: points[index], reverse=True)
    front: list[int] = []
    best_second = -math.inf
    for index in order:
        second_value = points[index][1]
        if second_value > best_second:
            best_second = second_value
            front.append(index)
        elif front and points[index] == points[front[-1]]:
            front.append(index)
    return sorted(front)


def _mean_if_complete(values: Sequence[float | None]) -> float | None:
    present = [value for value in values if value is not None]
    return sum(present) / len(present) if present and len(present) == len(values) else None
