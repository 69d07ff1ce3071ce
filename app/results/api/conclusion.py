"""Conclusions from the runs of a sweep over the API."""

from typing import Literal

from pydantic import BaseModel, Field

from app.results.conclusion.comparisons import Comparison
from app.results.conclusion.conclusion import Conclusion
from app.results.conclusion.evidence import Evidence
from app.results.conclusion.verdict_words import quote
from app.results.statistics.verdict import Verdict
from app.web.dependencies import Row
from isotropy.catalog import Regularizer


class RelationOut(Row):
    """Whether performance goes with isotropy across settings."""

    spearman: float | None = Field(
        validation_alias="value", description="Rank correlation over settings, adjusted for seeds."
    )
    p: float | None = Field(description="Two-sided p, by permuting the values of lambda.")
    lambdas: list[int] = Field(description="Values of lambda that are permuted, for each method, model and data set.")
    settings: int
    permutations: int = Field(description="How many; 0 where there is no p.")
    exact: bool = Field(description="Whether all permutations were used; else they are drawn with a fixed seed.")
    smallest_p: float | None = Field(description="Smallest p that this many values of lambda can reach.")
    reason: str | None = Field(description="Why a value or its p is missing.")


class SettingEffectOut(Row):
    """Whether settings differ in performance at all."""

    f: float | None
    degrees: tuple[int, int] = Field(description="Degrees of freedom: of settings, and of the residual.")
    p: float | None = Field(description="By permutations of performance within each seed.")
    permutations: int
    exact: bool
    smallest_p: float | None = Field(description="Smallest p that this many runs can reach.")
    settings: int
    seeds: int
    reason: str | None


class ExactTestOut(BaseModel):
    """The exact sign-flip test; reported next to the verdict, it never decides it."""

    p: float = Field(description="Two-sided.")
    p_holm: float = Field(description="Corrected by Holm for all settings.")
    smallest_p: float = Field(description="Smallest p that this many seeds can reach, before the correction.")
    seeds_needed: int | None = Field(
        description="Number of seeds with which p_holm could reach 0.05; null if none suffices."
    )


class RowsOnlyOut(BaseModel):
    """Fewer than three seeds: these very runs on new rows."""

    low: float
    high: float
    p: float
    test: Literal["mcnemar", "t"]


class NeededOut(Row):
    """Seeds or rows that would show a difference of the observed size with power 0.8."""

    seeds: int | None
    rows: int | None = Field(description="Rows needed with the present seeds, if no number of seeds suffices.")


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
    p: float | None = Field(description="Two-sided, of this setting alone.")
    p_adjusted: float | None = Field(description="At most 0.05 exactly where the interval leaves out 0.")
    comparisons: int = Field(description="Settings that p and interval are adjusted for, by Bonferroni.")
    method: Literal["seeds and rows", "seeds"] = Field(
        description="Model of the error: two-way random effects of seeds and rows, or the paired t-test over seeds."
    )
    degrees: float | None = Field(description="Of freedom, of Student's t.")
    seeds: list[int]
    rows: int | None = Field(description="Validation rows compared one by one; null where only seeds are compared.")
    rows_only: RowsOnlyOut | None
    needed: NeededOut | None
    exact_test: ExactTestOut
    quote: str = Field(description="The number to report, with its sample size.")

    @classmethod
    def from_result(cls, comparison: Comparison) -> "SettingDifferenceOut":
        judged, rows_only = comparison.judgment, comparison.rows_only
        return cls(
            label=comparison.label,
            regularizer=comparison.setting.regularizer,
            lam=comparison.setting.lam,
            zeta=comparison.setting.zeta,
            verdict=judged.verdict,
            estimate=comparison.estimate,
            low=judged.low,
            high=judged.high,
            p=judged.p,
            p_adjusted=judged.p_adjusted,
            comparisons=judged.comparisons,
            method=comparison.method.value,
            degrees=judged.difference.degrees if judged.p is not None else None,
            seeds=comparison.seeds,
            rows=comparison.rows,
            rows_only=rows_only
            and RowsOnlyOut(
                low=rows_only.low,
                high=rows_only.high,
                p=rows_only.p,
                test="mcnemar" if rows_only.mcnemar else "t",
            ),
            needed=judged.needed and NeededOut.model_validate(judged.needed),
            exact_test=ExactTestOut(
                p=comparison.flips.p,
                p_holm=comparison.p_holm,
                smallest_p=comparison.flips.smallest_p,
                seeds_needed=comparison.flip_seeds_needed,
            ),
            quote=quote(comparison),
        )


class PeakOut(BaseModel):
    """A curve that falls off on both sides of lambda = 0."""

    model: str
    regularizer: Regularizer
    gains: dict[float, float] = Field(description="Mean performance less that at lambda = 0, by lambda.")


class FlaggedOut(Row):
    """A run that learned nothing or diverged."""

    run_id: str
    label: str
    why: str


class TestsOut(BaseModel):
    """The tests of a sweep."""

    relation: RelationOut
    direction: Verdict | None = Field(
        description="Whether more isotropic settings perform better or worse, if p is at most 0.05 and no curve peaks "
        "at lambda = 0."
    )
    effect: SettingEffectOut
    peaks: list[PeakOut] = Field(description="Methods whose performance is lower on both sides of lambda = 0.")
    differences: list[SettingDifferenceOut]
    smallest_p_holm: float | None = Field(description="Smallest corrected p that the exact test can reach.")

    @classmethod
    def from_evidence(cls, evidence: Evidence) -> "TestsOut":
        return cls(
            relation=RelationOut.model_validate(evidence.relation),
            direction=evidence.direction,
            effect=SettingEffectOut.model_validate(evidence.effect),
            peaks=[
                PeakOut(model=peak.group.model, regularizer=peak.regularizer, gains=peak.gains)
                for peak in evidence.peaks
            ],
            differences=[SettingDifferenceOut.from_result(comparison) for comparison in evidence.comparisons],
            smallest_p_holm=evidence.smallest_p_holm,
        )


class PooledOut(BaseModel):
    """The tests pooled over data sets and metrics; settings are compared only within one."""

    measured: int = Field(description="Data sets and metrics.")
    relation: RelationOut
    effect: SettingEffectOut


class ConclusionOut(TestsOut):
    """The numbers beside the scatters of a sweep, and the same in words."""

    learned_nothing: list[FlaggedOut]
    diverged: list[FlaggedOut]
    without: TestsOut | None = Field(description="The tests without runs that learned nothing or diverged.")
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
        return cls(
            **dict(TestsOut.from_evidence(evidence)),
            learned_nothing=[FlaggedOut.model_validate(run) for run in evidence.learned_nothing],
            diverged=[FlaggedOut.model_validate(run) for run in evidence.diverged],
            without=TestsOut.from_evidence(evidence.without_flagged) if evidence.without_flagged else None,
            pooled=pooled
            and PooledOut(
                measured=pooled.measured,
                relation=RelationOut.model_validate(pooled.relation),
                effect=SettingEffectOut.model_validate(pooled.effect),
            ),
            sentences=[*filter(None, sentences)],
            methods=conclusion.methods,
            notes=conclusion.notes,
            cautions=conclusion.cautions,
        )
