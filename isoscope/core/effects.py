"""Describe what fixing a finding changes, for pages and the command line."""

from isoscope.core.formatting import number, starred, with_se
from isotropy.catalog import MEASURES, NEIGHBORS_KEPT, effect_name


def effect_sentence(
    finding_slug: str, measure: str, before: float | None, after: float | None, after_se: float | None
) -> str:
    """Describe how a measure changes by fixing a finding, or has changed by ``drift``. Undefined values are None."""
    is_drift = finding_slug == "drift"
    if measure == NEIGHBORS_KEPT and after is not None:
        digits = 0 if after < 0.995 else 1
        changed = f"{100 * (1 - after):.{digits}f}% of the 10 nearest neighbors"
        return f"{changed} changed." if is_drift else f"Fixing it changes {changed}."
    name = effect_name(measure) or starred(MEASURES[measure].name)
    before_text = "undefined" if before is None else number(before)
    after_text = "undefined" if after is None else with_se(after, after_se)
    if is_drift:
        return f"{name}: {before_text} in the baseline, {after_text} now."
    return f"{name}: {before_text} before fixing, {after_text} after."
