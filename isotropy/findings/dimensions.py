"""Dimensions that hold nothing, and that hold nearly everything."""

from __future__ import annotations

import torch
from torch import Tensor

from isotropy.findings.examined import Defect, Examined
from isotropy.findings.finding import Effect, Severity, judge, percent, score_effects
from isotropy.findings.limits import Gap, greatest_gap, limit

ROUNDING = 1e-12
"""Variance over the square of the mean, or over the median variance, up to which a dimension is constant."""

ROUNDING_OF_FLOAT64 = 1e-24
"""The same over the square of the mean where values have digits that float32 does not: times, or a large offset."""

SMALLEST_RATIO = 2.0
"""How many times as much as the next a dimension holds at least, if it stands out."""


def most_rogue(d: int) -> int:
    """Return how many of d dimensions may stand out: more are a part of the cloud."""
    return max(3, d // 10)


def constant_dimensions(examined: Examined) -> Defect | None:
    """Return the dimensions that are the same in every row."""
    cloud = examined.cloud
    if not examined.is_spread or cloud.d < 2:
        return None
    variances = cloud.moments.covariance().diagonal()
    median = variances[variances > 0].median()
    rounding = torch.where(examined.is_fine, ROUNDING_OF_FLOAT64, ROUNDING)
    own = variances <= torch.maximum(rounding * cloud.moments.mean.square(), ROUNDING * median)
    count = int(own.sum())
    if not 0 < count < cloud.d - 1:
        return None
    rest = examined.without_dimensions(numbers_of(own))
    effect, severity = judge(score_effects(cloud, rest.cloud), cloud.d)
    return Defect(
        slug="constant_dimensions",
        severity=severity,
        title=f"{dimensions_in_words(count)} {'is' if count == 1 else 'are'} constant",
        evidence=f"{count:,} of {cloud.d:,} dimensions have the same value in every row, up to rounding.",
        effect=effect,
        dimensions=examined.dimensions[own.numpy()],
        rest=rest,
    )


def rogue_dimensions(examined: Examined) -> Defect | None:
    """Return the dimensions that hold far more variance, or energy with their mean, than the decay of others allows."""
    cloud = examined.cloud
    if not examined.is_spread or cloud.d < 4:
        return None
    moments = cloud.moments
    variances = moments.covariance().diagonal()
    energies = variances + moments.mean.square()
    own = _standing_out(variances, "variance_gap", examined) | _standing_out(energies, "energy_gap", examined)
    count = int(own.sum())
    if count == 0:
        return None
    if (left := without(examined, own)) is None:
        return None
    rest, effect, severity = left
    share, energy = (float(values[own].sum() / values.sum()) for values in (variances, energies))
    greater = f"{percent(max(share, energy))} of the {'variance' if share >= energy else 'energy'}"
    holds, its, stands = ("holds", "its", "It stands") if count == 1 else ("hold", "their", "They stand")
    return Defect(
        slug="rogue_dimensions",
        severity=severity,
        title=f"{dimensions_in_words(count)} {holds} {greater}",
        evidence=(
            f"{count:,} of {cloud.d:,} dimensions {holds} {percent(share)} of the variance, and with {its} mean "
            f"{percent(energy)} of the energy. {stands} out from the decay of the other dimensions."
        ),
        effect=effect,
        dimensions=examined.dimensions[own.numpy()],
        rest=rest if severity is not Severity.NOTE else None,
    )


def without(examined: Examined, own: Tensor) -> tuple[Examined, Effect, Severity] | None:
    """Return what is left without some dimensions, and what that changes; None where nothing is left to measure."""
    rest = examined.without_dimensions(numbers_of(own))
    if not rest.is_spread:
        return None
    effects = [*score_effects(examined.cloud, rest.cloud), examined.kept_by(examined.sample[:, ~own])]
    return rest, *judge(effects, examined.cloud.d)


def _standing_out(values: Tensor, statistic: str, examined: Examined) -> Tensor:
    gap: Gap = greatest_gap(values, most_rogue(len(values)))
    own = torch.zeros(len(values), dtype=torch.bool)
    if gap.excess > limit(statistic, examined.units, len(values)) and gap.ratio >= SMALLEST_RATIO:
        own[values.argsort(descending=True)[: gap.size]] = True
    return own


def numbers_of(own: Tensor) -> list[int]:
    """Return where flags [d] are set."""
    numbers: list[int] = own.nonzero().squeeze(1).tolist()
    return numbers


def dimensions_in_words(count: int) -> str:
    """Return so many dimensions in words."""
    return "1 dimension" if count == 1 else f"{count:,} dimensions"
