"""Dimensions that are constant, and dimensions that hold most of the variance or energy."""

import torch
from torch import Tensor

from isotropy.findings.finding import Defect, Effect, ExaminedCloud, Severity, judge, percent, score_effects
from isotropy.findings.limits import find_largest_gap, healthy_limit

# Variance over the square of the mean, or over the median variance, up to which a dimension is constant.
ROUNDING = 1e-12
# The same for values with more digits than float32, such as timestamps, relative to the squared mean.
ROUNDING_OF_FLOAT64 = 1e-24
# Maximum mean square of the difference of copies over the sum of their variances; rounding to bfloat16 stays below it.
MAX_COPY_VARIANCE = 1e-5
MIN_RATIO = 2.0  # Minimum ratio between a dimension that stands out and the next


def max_rogue_dimensions(d: int) -> int:
    """Return the maximum number of rogue dimensions among d; if more stand out, none is rogue."""
    return max(3, d // 10)


def constant_dimensions(examined: ExaminedCloud) -> Defect | None:
    cloud = examined.cloud
    if not examined.has_spread or cloud.d < 2:
        return None
    variances = cloud.moments.covariance().diagonal()
    median = variances[variances > 0].median()
    rounding = torch.where(examined.float64_mask, ROUNDING_OF_FLOAT64, ROUNDING)
    is_constant = variances <= torch.maximum(rounding * cloud.moments.mean.square(), ROUNDING * median)
    count = int(is_constant.sum())
    if not 0 < count < cloud.d - 1:
        return None
    remaining = examined.without_dimensions(is_constant.nonzero().squeeze(1).tolist())
    effect, severity = judge(score_effects(cloud, remaining.cloud), cloud.d)
    return Defect(
        slug="constant_dimensions",
        severity=severity,
        title=f"{format_dimensions(count)} {'is' if count == 1 else 'are'} constant",
        evidence=f"{count:,} of {cloud.d:,} dimensions have the same value in every row, up to rounding.",
        effect=effect,
        dimensions=examined.dimensions[is_constant.numpy()],
        remaining=remaining,
    )


def doubled_dimensions(examined: ExaminedCloud) -> Defect | None:
    """Find dimensions that equal an earlier one in every row, up to rounding to half precision."""
    cloud = examined.cloud
    if not examined.has_spread or cloud.d < 3:
        return None
    S, mean = cloud.moments.covariance(), cloud.moments.mean
    variances = S.diagonal()
    differences = variances + variances[:, None] - 2 * S + (mean - mean[:, None]).square()
    are_equal = differences <= MAX_COPY_VARIANCE * (variances + variances[:, None])
    is_doubled = are_equal.tril(-1).any(1)
    count = int(is_doubled.sum())
    if count == 0 or (removal := examine_without(examined, is_doubled, count / cloud.d)) is None:
        return None
    remaining, effect, severity = removal
    originals = examined.dimensions[are_equal[is_doubled].int().argmax(1).numpy()]
    doubled = examined.dimensions[is_doubled.numpy()]
    pairs = zip(doubled[:3], originals[:3], strict=True)
    examples = ", ".join(f"{copy} repeats {original}" for copy, original in pairs)
    return Defect(
        slug="doubled_dimensions",
        severity=severity,
        title=f"{format_dimensions(count)} {'repeats' if count == 1 else 'repeat'} another",
        evidence=(
            f"{count:,} of {cloud.d:,} dimensions repeat an earlier one in every row: {examples}"
            f"{' ...' if count > len(originals[:3]) else ''}. They count twice in every cosine."
        ),
        effect=effect,
        dimensions=doubled,
        remaining=remaining,
    )


def rogue_dimensions(examined: ExaminedCloud) -> Defect | None:
    """Find dimensions with far more variance or energy than the decay of the others allows."""
    cloud = examined.cloud
    if not examined.has_spread or cloud.d < 4:
        return None
    moments = cloud.moments
    variances = moments.covariance().diagonal()
    energies = variances + moments.mean.square()
    is_rogue = torch.zeros(cloud.d, dtype=torch.bool)
    for statistic, values in (("variance_gap", variances), ("energy_gap", energies)):
        gap = find_largest_gap(values, max_rogue_dimensions(cloud.d))
        if gap.excess > healthy_limit(statistic, cloud.n_independent, cloud.d) and gap.ratio >= MIN_RATIO:
            is_rogue[values.argsort(descending=True)[: gap.n_above]] = True
    count = int(is_rogue.sum())
    if count == 0 or (removal := examine_without(examined, is_rogue)) is None:
        return None
    remaining, effect, severity = removal
    variance_share, energy_share = (float(values[is_rogue].sum() / values.sum()) for values in (variances, energies))
    noun = "variance" if variance_share >= energy_share else "energy"
    largest_share = f"{percent(max(variance_share, energy_share))} of the {noun}"
    holds, possessive, stands = ("holds", "its", "It stands") if count == 1 else ("hold", "their", "They stand")
    return Defect(
        slug="rogue_dimensions",
        severity=severity,
        title=f"{format_dimensions(count)} {holds} {largest_share}",
        evidence=(
            f"{count:,} of {cloud.d:,} dimensions {holds} {percent(variance_share)} of the variance, and with "
            f"{possessive} mean {percent(energy_share)} of the energy. "
            f"{stands} out from the decay of the other dimensions."
        ),
        effect=effect,
        dimensions=examined.dimensions[is_rogue.numpy()],
        remaining=remaining if severity is not Severity.NOTE else None,
    )


def examine_without(
    examined: ExaminedCloud, is_removed: Tensor, affected_share: float = 0.0
) -> tuple[ExaminedCloud, Effect, Severity] | None:
    """Return the cloud without the dimensions in a mask [d], the effect and its severity; None if no spread is left.

    ``affected_share`` is as in ``judge``.
    """
    remaining = examined.without_dimensions(is_removed.nonzero().squeeze(1).tolist())
    if not remaining.has_spread:
        return None
    changed_sample = examined.sample[:, ~is_removed]
    effects = [*score_effects(examined.cloud, remaining.cloud), examined.neighbors_kept(changed_sample)]
    return remaining, *judge(effects, examined.cloud.d, affected_share)


def format_dimensions(count: int) -> str:
    return "1 dimension" if count == 1 else f"{count:,} dimensions"
