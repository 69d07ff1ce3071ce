"""API representation of the conclusion from a sweep."""

from typing import Literal

from pydantic import BaseModel, Field

from app.core.evidence import look_level
from app.results.conclusion.comparisons import Comparison, Verdict
from app.results.conclusion.conclusion import Conclusion
from app.results.conclusion.evidence import FlaggedRun, RelationShape
from app.results.conclusion.proposal import propose_seeds
from app.results.conclusion.verdict_words import format_quote
from app.web.dependencies import Row
from isotropy.catalog import Regularizer


class RelationOut(Row):
    """The relation between isotropy and performance across settings."""

    spearman: float | None = Field(
        validation_alias="value", description="Rank correlation over settings, adjusted for seeds."
    )
    p: float | None = Field(description="Two-sided p, by permuting the values of lambda.")
    lambdas: list[int] = Field(description="Values of lambda that are permuted, for each method, model and data set.")
    settings: int
    permutations: int = Field(description="Number of permutations; 0 if there is no p.")
    exact: bool = Field(description="Whether all permutations were used; otherwise they are drawn with a fixed seed.")
    smallest_p: float | None = Field(description="Smallest p that this many values of lambda can reach.")
    reason: str | None = Field(description="Why a value or its p is missing.")


class OverallOut(Row):
    """Whether settings differ at all: each against the mean of all, and the trend over lambda, as one family."""

    p: float | None
    settings: int
    trend: float | None = Field(
        description="Difference from the lower half of lambda to the upper; null if no trend is significant."
    )


class SettingDifferenceOut(BaseModel):
    """A setting against lambda = 0, paired by seed, and by row where predictions are stored."""

    label: str
    regularizer: Regularizer
    lam: float
    zeta: float | None
    verdict: Verdict
    estimate: float = Field(description="Mean difference in performance.")
    low: float | None = Field(description="End of the 95% interval, simultaneous over all comparisons.")
    high: float | None
    pooled_low: float | None = Field(description="The interval if seeds vary equally in all settings.")
    pooled_high: float | None
    p_adjusted: float | None = Field(description="At most 0.05 if and only if the interval excludes 0.")
    comparisons: int = Field(description="Number of settings compared; their intervals hold simultaneously.")
    method: Literal["seeds and rows", "seeds"] = Field(description="Sources of the error.")
    degrees: float | None = Field(description="Degrees of freedom of Student's t.")
    seeds: list[int]
    rows: int | None = Field(description="Validation rows that are part of the error; null if seeds alone are.")
    look: int = Field(description="The look whose runs and level were used: the one that decided, else the last.")
    quote: str = Field(description="The number to report, with its sample size.")

    @classmethod
    def from_comparison(cls, comparison: Comparison) -> "SettingDifferenceOut":
        contrast = comparison.contrast
        pooled_half_width = contrast.pooled_half_width
        return cls(
            label=comparison.label,
            regularizer=comparison.setting.regularizer,
            lam=comparison.setting.lam,
            zeta=comparison.setting.zeta,
            verdict=comparison.verdict,
            estimate=comparison.estimate,
            low=contrast.low,
            high=contrast.high,
            pooled_low=None if pooled_half_width is None else comparison.estimate - pooled_half_width,
            pooled_high=None if pooled_half_width is None else comparison.estimate + pooled_half_width,
            p_adjusted=contrast.p,
            comparisons=comparison.family_size,
            method=comparison.method.value,
            degrees=None if contrast.p is None else contrast.degrees,
            seeds=comparison.seeds,
            rows=comparison.n_rows,
            look=comparison.look,
            quote=format_quote(comparison),
        )


class CollapsedOut(Row):
    """A setting that gives almost all rows one prediction, or diverges, in two thirds of its seeds or more."""

    label: str
    collapsed: int = Field(description="Seeds that collapsed.")
    seeds: int
    why: str


class PooledOut(BaseModel):
    """The relation pooled over data sets and metrics; settings are compared only within one."""

    measured: int = Field(description="Number of data sets and metrics.")
    relation: RelationOut


class MoreSeedsOut(Row):
    """The seeds that `POST /api/experiments/{experiment_id}/seeds` adds by default."""

    seeds: int = Field(description="New seeds of each undecided setting and its baseline.")
    runs: int
    differences: tuple[float, float] | None = Field(
        description="Smallest and largest difference that they would detect with power 0.8; null with too few seeds."
    )
    seconds: float | None = Field(description="Estimated time of all runs, one at a time.")


class ConclusionOut(BaseModel):
    """The conclusion from a sweep, in numbers and in words."""

    unfinished: int = Field(description="Number of runs that have not ended. There are no verdicts before all have.")
    look: int = Field(
        description="How often settings were tested: once, and again after each round of added seeds; 0 while runs are "
        "unfinished."
    )
    level: float | None = Field(
        description="Level of this look: 0.04, then 0.005, 0.0025 and so on; less than 0.05 in sum."
    )
    more_seeds: MoreSeedsOut | None = Field(
        description="Null while runs are unfinished, or if no setting is undecided."
    )
    collapsed: list[CollapsedOut]
    baseline_collapsed: bool = Field(description="Whether no setting can be compared, because its baseline collapsed.")
    differences: list[SettingDifferenceOut]
    overall: OverallOut | None
    relation: RelationOut
    shape: RelationShape = Field(description="How performance changes with isotropy across settings.")
    peak: str | None = Field(description="Settings above both the least and the most isotropic one, joined by “or”.")
    learned_nothing: list[FlaggedRun]
    diverged: list[FlaggedRun]
    pooled: PooledOut | None
    sentences: list[str] = Field(
        description="The conclusion: findings, what they generalize to, and the number to report."
    )
    methods: list[str] = Field(description="Method and assumptions.")
    notes: list[str] = Field(description="What was left out or could not be compared.")
    cautions: list[str] = Field(description="Caveats.")

    @classmethod
    def from_conclusion(cls, conclusion: Conclusion) -> "ConclusionOut":
        evidence, pooled = conclusion.evidence, conclusion.pooled
        sentences = [*conclusion.findings, *conclusion.verdict_scope, conclusion.quote_advice]
        proposal = propose_seeds(evidence, conclusion.sweep)
        return cls(
            unfinished=evidence.unfinished,
            look=evidence.looks,
            level=look_level(evidence.looks) if evidence.looks else None,
            more_seeds=None if proposal is None else MoreSeedsOut.model_validate(proposal),
            collapsed=[CollapsedOut.model_validate(setting) for setting in evidence.collapsed],
            baseline_collapsed=evidence.baseline_collapsed,
            differences=[SettingDifferenceOut.from_comparison(comparison) for comparison in evidence.comparisons],
            overall=evidence.overall and OverallOut.model_validate(evidence.overall),
            relation=RelationOut.model_validate(evidence.relation),
            shape=evidence.shape,
            peak=evidence.peak,
            learned_nothing=evidence.learned_nothing,
            diverged=evidence.diverged,
            pooled=pooled and PooledOut(measured=pooled.n_sweeps, relation=RelationOut.model_validate(pooled.relation)),
            sentences=[*filter(None, sentences)],
            methods=conclusion.methods,
            notes=conclusion.notes,
            cautions=conclusion.cautions,
        )
