"""Dimensions that hold nothing, that hold something else, and that hold nearly everything."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from isotropy.findings.examined import Defect, Examined
from isotropy.findings.finding import Effect, Severity, judge, percent, score_effects
from isotropy.findings.limits import Gap, greatest_gap, limit
from isotropy.rows import kept_rows

ROUNDING = 1e-12
"""Variance over the square of the mean, or over the median variance, up to which a dimension is constant."""

HUNDREDTHS = 100
"""Metadata are whole numbers, or such as prices have two decimals."""

MOST_METADATA = 0.25
"""Share of the dimensions beyond which such numbers are how all values were written."""

LINEAR = 0.995
"""Correlation with the number of the row from which a dimension counts the rows."""

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
    own = variances <= ROUNDING * torch.maximum(cloud.moments.mean.square(), median)
    count = int(own.sum())
    if not 0 < count < cloud.d - 1:
        return None
    rest = examined.without_dimensions(_numbers(own))
    effect, severity = judge(score_effects(cloud, rest.cloud), cloud.d)
    return Defect(
        slug="constant_dimensions",
        severity=severity,
        title=f"{_dimensions(count)} {'is' if count == 1 else 'are'} constant",
        evidence=f"{count:,} of {cloud.d:,} dimensions have the same value in every row, up to rounding.",
        effect=effect,
        dimensions=examined.dimensions[own.numpy()],
        rest=rest,
    )


def metadata_as_coordinates(examined: Examined) -> Defect | None:
    """Return the dimensions of whole numbers, or with two decimals, beside others with fractions, or that count rows.

    Values of a continuous distribution are never such numbers; n of them are in order once in n! times.
    """
    cloud = examined.cloud
    if not examined.is_spread or cloud.d < 3 or cloud.unit != 1:
        return None
    own = _on_grid(examined) | _counts_rows(examined)
    count = int(own.sum())
    if not 0 < count <= max(1, MOST_METADATA * cloud.d):
        return None
    if (left := _without(examined, own)) is None:
        return None
    rest, effect, severity = left
    return Defect(
        slug="metadata_as_coordinates",
        severity=severity,
        title=f"{_dimensions(count)} {'looks' if count == 1 else 'look'} like metadata",
        evidence=(
            f"{'It holds' if count == 1 else 'They hold'} whole numbers, numbers with two decimals or the order of the "
            f"rows, while the other {cloud.d - count:,} dimensions have fractions."
        ),
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
    if (left := _without(examined, own)) is None:
        return None
    rest, effect, severity = left
    share, energy = (float(values[own].sum() / values.sum()) for values in (variances, energies))
    greater = f"{percent(max(share, energy))} of the {'variance' if share >= energy else 'energy'}"
    holds, its, stands = ("holds", "its", "It stands") if count == 1 else ("hold", "their", "They stand")
    return Defect(
        slug="rogue_dimensions",
        severity=severity,
        title=f"{_dimensions(count)} {holds} {greater}",
        evidence=(
            f"{count:,} of {cloud.d:,} dimensions {holds} {percent(share)} of the variance, and with {its} mean "
            f"{percent(energy)} of the energy. {stands} out from the decay of the other dimensions."
        ),
        effect=effect,
        dimensions=examined.dimensions[own.numpy()],
        rest=rest if severity is not Severity.NOTE else None,
    )


def _without(examined: Examined, own: Tensor) -> tuple[Examined, Effect, Severity] | None:
    """Return what is left without some dimensions, and what that changes; None where nothing is left to measure."""
    rest = examined.without_dimensions(_numbers(own))
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


def _on_grid(examined: Examined) -> Tensor:
    """Return which dimensions have whole numbers, or numbers with two decimals, in all rows."""
    cloud = examined.cloud
    precision = float(np.finfo(cloud.points.dtype).eps)
    own = _hundredths(examined.sample, precision)
    # Most clouds end here: the other rows are read only for dimensions that a sample leaves in doubt.
    if not own.any():
        return own
    for kept, _, _ in kept_rows(cloud.points):
        own &= _hundredths(kept.double(), precision)
    return own & (cloud.moments.covariance().diagonal() > 0)


def _hundredths(x: Tensor, precision: float) -> Tensor:
    """Return which dimensions of points [n, d] are multiples of 1/100, and so small that not all numbers are."""
    rounding = 2 * precision * x.abs().amax(0) * HUNDREDTHS
    scaled = x * HUNDREDTHS
    whole: Tensor = ((x - x.round()).abs() == 0).all(0) & (rounding < HUNDREDTHS)
    return whole | (((scaled - scaled.round()).abs() <= rounding).all(0) & (rounding < 1e-2))


def _counts_rows(examined: Examined) -> Tensor:
    """Return which dimensions never fall, or never rise, and are a straight line over the rows."""
    cloud = examined.cloud
    places = cloud.rows.double()
    at = places - places.mean()
    x = cloud.sample.double()
    y = x - x.mean(0)
    size = y.square().sum(0).sqrt() * at.norm()
    line: Tensor = ((at @ y) / size.clamp(min=1e-300)).abs() > LINEAR
    if line.any():
        order = cloud.rows.argsort()
        steps = x[order][:, line].diff(dim=0)
        line[line.clone()] = (steps >= 0).all(0) | (steps <= 0).all(0)
    return line


def _numbers(own: Tensor) -> list[int]:
    numbers: list[int] = own.nonzero().squeeze(1).tolist()
    return numbers


def _dimensions(count: int) -> str:
    return "1 dimension" if count == 1 else f"{count:,} dimensions"
