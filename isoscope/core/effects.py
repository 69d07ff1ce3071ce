"""Describe what fixing a finding changes, for pages and the command line."""

from isoscope.core.formatting import number, starred, with_se
from isotropy.catalog import MEASURES, NEIGHBORS_KEPT, effect_name


def effect_sentence(slug: str, measure: str, before: float | None, after: float | None, se: float | None) -> str:
    """Describe the effect of fixing a finding: "Fixing it changes 19% of the 10 nearest neighbors."."""
    has_drifted = slug == "drift"
    if measure == NEIGHBORS_KEPT and after is not None:
        changed = f"{100 * (1 - after):.0f}%" if after < 0.995 else f"{100 * (1 - after):.1f}%"
        noun = "of the 10 nearest neighbors"
        return f"{changed} {noun} changed." if has_drifted else f"Fixing it changes {changed} {noun}."
    name = effect_name(measure) or starred(MEASURES[measure].name)
    before_text = "undefined" if before is None else number(before)
    after_text = "undefined" if after is None else with_se(after, se)
    if has_drifted:
        return f"{name}: {before_text} in the baseline, {after_text} now."
    return f"{name}: {before_text} before fixing, {after_text} after."
