"""What the runs of a sweep allow to be concluded."""

from pydantic import BaseModel, Field

from app.conclusion.conclusion import Conclusion
from app.conclusion.evidence import Difference
from app.db.penalty import Regularizer
from app.statistics.correlation import Coefficient


class CoefficientOut(BaseModel):
    """A correlation of IsoScore* and performance over runs."""

    value: float | None
    p: float | None = Field(description="Two-sided, by permutations of settings within seed.")
    reason: str | None = Field(description="Why a value or its p is missing.")

    @classmethod
    def of(cls, found: Coefficient) -> "CoefficientOut":
        """From what was found."""
        return cls(value=found.value, p=found.p, reason=found.reason)


class CorrelationOut(BaseModel):
    """Both coefficients and what their p-values rest on."""

    n: int = Field(description="Runs that have both values; those of one setting and seed count once, by their mean.")
    spearman: CoefficientOut
    pearson: CoefficientOut
    permutations: int = Field(description="How many; 0 where there is no p.")
    exact: bool = Field(description="All permutations there are; else drawn by a fixed seed.")
    smallest_p: float | None = Field(description="What no p of so few runs can fall below.")
    within: list[str] = Field(description="Fields within which runs are compared, besides the seed.")


class DifferenceOut(BaseModel):
    """The performance of a setting less that of lambda = 0, paired by seed."""

    label: str
    regularizer: Regularizer
    lam: float
    zeta: float | None
    seeds: list[int]
    mean: float
    ci95_half_width: float | None = Field(description="By Student's t; null of one seed.")
    p: float = Field(description="Two-sided, by flips of the differences' signs.")
    smallest_p: float = Field(description="What so few seeds cannot fall below.")
    p_holm: float = Field(description="Corrected by Holm for all settings of the sweep.")

    @classmethod
    def of(cls, found: Difference) -> "DifferenceOut":
        """From what was found."""
        return cls(
            label=found.label,
            regularizer=found.setting.regularizer,
            lam=found.setting.lam,
            zeta=found.setting.zeta,
            seeds=found.seeds,
            mean=found.difference.mean,
            ci95_half_width=found.difference.half_width,
            p=found.flips.p,
            smallest_p=found.flips.smallest_p,
            p_holm=found.p_holm,
        )


class ConclusionOut(BaseModel):
    """The numbers beside the scatters of a sweep, and the same in words."""

    correlation: CorrelationOut
    differences: list[DifferenceOut]
    smallest_p_holm: float | None = Field(description="What no corrected p of these differences can fall below.")
    sentences: list[str] = Field(description="What the numbers say, and how they were found.")
    notes: list[str] = Field(description="What was left out or could not be compared.")
    cautions: list[str] = Field(description="What speaks against reading more into the numbers.")

    @classmethod
    def of(cls, conclusion: Conclusion) -> "ConclusionOut":
        """From what was found."""
        found = conclusion.evidence
        measured = found.correlation
        told = (conclusion.headline, conclusion.without_alike, conclusion.permuted, *conclusion.tested)
        return cls(
            correlation=CorrelationOut(
                n=measured.n,
                spearman=CoefficientOut.of(measured.spearman),
                pearson=CoefficientOut.of(measured.pearson),
                permutations=measured.permutations,
                exact=measured.exact,
                smallest_p=measured.smallest_p,
                within=found.within,
            ),
            differences=[DifferenceOut.of(one) for one in found.differences],
            smallest_p_holm=found.smallest_p_holm,
            sentences=[*filter(None, told)],
            notes=conclusion.notes,
            cautions=conclusion.cautions,
        )
