"""A conclusion in words: the finding first, then what stands behind it."""

from collections.abc import Sequence

from app.core.evidence import LEVEL, lambdas_needed
from app.db.options.regularization import NAMES
from app.db.run_rows import AnyRun
from app.results.conclusion.evidence import Evidence, Pooled
from app.results.run_table import RunTable
from app.results.statistics.relation import Relation
from app.results.statistics.setting_effect import SettingEffect
from isoscope.core.formatting import MISSING, count, number, plural, two_decimals


def untested(found: Evidence) -> bool:
    """Whether neither the relation nor the settings can be tested, which is then said once."""
    return found.relation.value is None and found.effect.p is None


def headline(found: Evidence) -> str:
    """Whether performance goes with isotropy across settings, in a sentence."""
    measured = found.relation
    if measured.value is None:
        why = f"{measured.reason} {found.effect.reason}" if untested(found) else measured.reason
        return f"{'Nothing' if untested(found) else 'No relation'} can be tested{' yet' * untested(found)}. {why}"
    if found.peaks_at_zero:
        return (
            "Performance peaks at λ = 0 and is lower on both sides, so neither more nor less isotropy goes with better "
            f"performance: {relation_numbers(measured)}."
        )
    if measured.p is None:
        return f"The relation cannot be tested: {relation_numbers(measured)}. {measured.reason}"
    if found.direction is not None:
        where = "" if measured.positive == (measured.value > 0) else ", compared at the same λ"
        return f"The more isotropic a setting, the {found.direction} it does{where}: {relation_numbers(measured)}."
    if measured.smallest_p is not None and measured.smallest_p > LEVEL:
        return (
            f"{_values_of_lambda(measured)} are too few to show a relation between isotropy and performance: p cannot "
            f"fall below {p_value(measured.smallest_p)}; it takes {lambdas_needed()} values. "
            f"Here: {relation_numbers(measured)}."
        )
    return f"No clear relation between isotropy and performance: {relation_numbers(measured)}."


def peaked(found: Evidence) -> str:
    """Which of several curves peak at λ = 0, where the headline is about others too; empty where it says so itself."""
    if not found.peaks or found.peaks_at_zero:
        return ""
    several = len({curve.place.model for curve in found.curves}) > 1
    named = (NAMES[one.regularizer] + f" ({one.place.model})" * several for one in found.peaks)
    return f"Performance peaks at λ = 0 and is lower on both sides for {', '.join(named)}."


def effect(found: SettingEffect) -> str:
    """Whether settings differ in performance at all, in a sentence."""
    if found.p is None:
        return f"Whether settings differ cannot be tested. {found.reason}"
    numbers = f"p = {p_value(found.p)}, {plural(found.settings, 'setting')}, {plural(found.seeds, 'seed')}"
    if found.f is not None:
        numbers = f"F({found.degrees[0]}, {found.degrees[1]}) = {number(found.f)}, {numbers}"
    if found.p <= LEVEL:
        return f"Settings differ in performance: {numbers}."
    if found.smallest_p is not None and found.smallest_p > LEVEL:
        least = f"p cannot fall below {p_value(found.smallest_p)}, so it takes more seeds or settings"
        return f"These runs are too few to show that settings differ: {numbers}; {least}."
    return f"No clear difference between settings: {numbers}."


def relation_method(found: Relation, sweep: RunTable) -> str:
    """How the relation is tested, and what that takes for granted."""
    if found.p is None:
        return ""
    how = f"All {count(found.permutations)}" if found.exact else f"{count(found.permutations)} random"
    begin = (
        "We assume that runs of a script with the same seed start from the same weights."
        if any(run.config.logged for run in sweep.runs)
        else "Runs of one seed start from the same weights and read rows in the same order."
    )
    return (
        "Relation: isotropy and performance are adjusted for seeds and averaged by setting, and their ranks are "
        f"correlated (Spearman). {how} permutations of the values of λ give p, two-sided. A value of λ moves together "
        "with all its seeds and all that it is crossed with (ζ, learning rate, batch size), within each method, model "
        "and data set and never across them. The baseline counts once, with the method that has most values of λ. "
        f"The smallest p that {_values_of_lambda(found)} can reach is {p_value(found.smallest_p)}. {begin} "
        "Assumption: if there is no relation, every order of the values of λ is equally likely. Two smooth trends over "
        "λ can agree by chance, so few values of λ show that isotropy and performance go together, not that one causes "
        "the other."
    )


def effect_method(found: SettingEffect) -> str:
    """How it is tested whether settings differ."""
    if found.p is None:
        return ""
    how = f"all {count(found.permutations)}" if found.exact else f"{count(found.permutations)} random"
    return (
        "Settings: F of the setting in a layout of settings and seeds, with seeds taken out; p by "
        f"{how} permutations of performance within each seed. It says that settings differ, not why."
    )


def without(found: Evidence) -> list[str]:
    """What changes without the runs that learned nothing or diverged; empty where there are none such."""
    rest = found.without
    if rest is None:
        return []
    left_out = len({one.run_id for one in (*found.learned_nothing, *found.diverged)})
    said = [
        f"Without {plural(left_out, 'run')} that learned nothing or diverged: {headline(rest)} {effect(rest.effect)}"
    ]
    before = {one.setting: (one.label, one.judged.verdict.value) for one in found.comparisons}
    after = {one.setting: one.judged.verdict.value for one in rest.comparisons}
    changed = [
        f"{label}: {verdict} becomes {after.get(setting, 'no runs left to compare')}"
        for setting, (label, verdict) in before.items()
        if after.get(setting) != verdict
    ]
    said.append(f"Verdicts that change: {'; '.join(changed)}." if changed else "No verdict changes.")
    return said


def relation_numbers(found: Relation) -> str:
    """The coefficient, its p, and what it is of."""
    value = MISSING if found.value is None else two_decimals(found.value)
    p = "" if found.p is None else f" (p = {p_value(found.p)})"
    across = f"{_values_of_lambda(found)}" if found.lambdas else plural(found.settings, "setting")
    crossed = f", {plural(found.settings, 'setting')}" if found.lambdas and found.settings != sum(found.lambdas) else ""
    return f"rank correlation {value}{p} across {across}{crossed}"


def p_value(p: float | None) -> str:
    """A p-value to two digits, never rounded to nothing: 0.031, 0.0002, 0.25."""
    return MISSING if p is None else number(p, 2)


def waiting(runs: Sequence[AnyRun]) -> bool:
    """Whether it is too early to say anything."""
    return not any(run.performance is not None for run in runs)


def _values_of_lambda(found: Relation) -> str:
    if len(found.lambdas) <= 1:
        return plural(sum(found.lambdas), "value of λ", "values of λ")
    return f"{' + '.join(map(count, found.lambdas))} values of λ"


def together(found: Pooled) -> str:
    """The relation pooled over data sets; runs are compared only within a data set."""
    measured = found.relation
    sets = f"Over all {count(found.measured)} data sets and metrics, each within itself"
    if measured.p is None:
        return f"{sets}: no relation can be tested."
    if measured.p > LEVEL:
        return f"{sets}: no clear relation, {relation_numbers(measured)}."
    which = "better" if measured.positive else "worse"
    return f"{sets}: the more isotropic a setting, the {which} it does, {relation_numbers(measured)}."
