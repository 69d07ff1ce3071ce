"""Sentences of a conclusion: findings, methods and assumptions."""

from collections.abc import Sequence

from app.core.evidence import SIGNIFICANCE_LEVEL, min_lambdas
from app.db.options.regularization import REGULARIZER_NAMES
from app.db.run_rows import AnyRun
from app.results.conclusion.evidence import Evidence, PooledTests
from app.results.run_table import RunTable
from app.results.statistics.relation import Relation
from app.results.statistics.setting_effect import SettingEffect
from isoscope.core.formatting import MISSING, count, number, plural, two_decimals


def is_untested(evidence: Evidence) -> bool:
    """Return whether neither the relation nor the settings can be tested, so that one sentence covers both."""
    return evidence.relation.value is None and evidence.effect.p is None


def headline(evidence: Evidence) -> str:
    """Summarize whether performance goes with isotropy across settings."""
    relation = evidence.relation
    if relation.value is None:
        reason = f"{relation.reason} {evidence.effect.reason}" if is_untested(evidence) else relation.reason
        return f"{'Nothing can be tested yet' if is_untested(evidence) else 'No relation can be tested'}. {reason}"
    if evidence.peaks_at_zero:
        return (
            "Performance peaks at λ = 0 and is lower on both sides, so neither more nor less isotropy goes with better "
            f"performance: {relation_numbers(relation)}."
        )
    if relation.p is None:
        return f"The relation cannot be tested: {relation_numbers(relation)}. {relation.reason}"
    if evidence.direction is not None:
        condition = "" if relation.positive == (relation.value > 0) else ", compared at the same λ"
        return (
            f"The more isotropic a setting, the {evidence.direction} it does{condition}: {relation_numbers(relation)}."
        )
    if relation.smallest_p is not None and relation.smallest_p > SIGNIFICANCE_LEVEL:
        return (
            f"{_values_of_lambda(relation)} are too few to show a relation between isotropy and performance: p cannot "
            f"fall below {format_p_value(relation.smallest_p)}; it takes {min_lambdas()} values. "
            f"Here: {relation_numbers(relation)}."
        )
    return f"No clear relation between isotropy and performance: {relation_numbers(relation)}."


def name_peaks(evidence: Evidence) -> str:
    """Name the methods that peak at λ = 0; empty if none does, or if the headline already says so."""
    if not evidence.peaks or evidence.peaks_at_zero:
        return ""
    has_several_models = len({curve.group.model for curve in evidence.curves}) > 1
    method_names = (
        REGULARIZER_NAMES[curve_at_peak.regularizer] + f" ({curve_at_peak.group.model})" * has_several_models
        for curve_at_peak in evidence.peaks
    )
    return f"Performance peaks at λ = 0 and is lower on both sides for {', '.join(method_names)}."


def describe_effect(setting_effect: SettingEffect) -> str:
    """Summarize whether settings differ in performance."""
    if setting_effect.p is None:
        return f"Whether settings differ cannot be tested. {setting_effect.reason}"
    settings, seeds = plural(setting_effect.settings, "setting"), plural(setting_effect.seeds, "seed")
    statistics = f"p = {format_p_value(setting_effect.p)}, {settings}, {seeds}"
    if setting_effect.f is not None:
        statistics = (
            f"F({setting_effect.degrees[0]}, {setting_effect.degrees[1]}) = {number(setting_effect.f)}, {statistics}"
        )
    if setting_effect.p <= SIGNIFICANCE_LEVEL:
        return f"Settings differ in performance: {statistics}."
    if setting_effect.smallest_p is not None and setting_effect.smallest_p > SIGNIFICANCE_LEVEL:
        bound = f"p cannot fall below {format_p_value(setting_effect.smallest_p)}, so it takes more seeds or settings"
        return f"These runs are too few to show that settings differ: {statistics}; {bound}."
    return f"No clear difference between settings: {statistics}."


def relation_method(relation: Relation, sweep: RunTable) -> str:
    """Describe how the relation is tested, and what the test assumes."""
    if relation.p is None:
        return ""
    permutations = f"All {count(relation.permutations)}" if relation.exact else f"{count(relation.permutations)} random"
    assumption = (
        "We assume that runs of a script with the same seed start from the same weights."
        if any(run.config.logged for run in sweep.runs)
        else "Runs of one seed start from the same weights and read rows in the same order."
    )
    return (
        "Relation: isotropy and performance are adjusted for seeds and averaged by setting, and their ranks are "
        f"correlated (Spearman). {permutations} permutations of the values of λ give p, two-sided. A value of λ moves "
        "together with all its seeds and all that it is crossed with (ζ, learning rate, batch size), within each "
        "method, model and data set and never across them. The baseline counts once, with the method that "
        "has most values of λ. "
        f"The smallest p that {_values_of_lambda(relation)} can reach is {format_p_value(relation.smallest_p)}. "
        f"{assumption} "
        "Assumption: if there is no relation, every order of the values of λ is equally likely. Two smooth trends over "
        "λ can agree by chance, so few values of λ show that isotropy and performance go together, not that one causes "
        "the other."
    )


def effect_method(setting_effect: SettingEffect) -> str:
    """Describe how the difference between settings is tested."""
    if setting_effect.p is None:
        return ""
    permutations = (
        f"all {count(setting_effect.permutations)}"
        if setting_effect.exact
        else f"{count(setting_effect.permutations)} random"
    )
    return (
        "Settings: F of the setting in a layout of settings and seeds, with seeds taken out; p by "
        f"{permutations} permutations of performance within each seed. It says that settings differ, not why."
    )


def describe_without_flagged(evidence: Evidence) -> list[str]:
    """Describe what changes without the runs that learned nothing or diverged; empty without such runs."""
    remaining = evidence.without_flagged
    if remaining is None:
        return []
    left_out = len({comparison.run_id for comparison in (*evidence.learned_nothing, *evidence.diverged)})
    sentences = [
        f"Without {plural(left_out, 'run')} that learned nothing or diverged: {headline(remaining)} "
        f"{describe_effect(remaining.effect)}"
    ]
    verdicts_before = {
        comparison.setting: (comparison.label, comparison.judgment.verdict.value) for comparison in evidence.comparisons
    }
    verdicts_after = {comparison.setting: comparison.judgment.verdict.value for comparison in remaining.comparisons}
    changed = [
        f"{label}: {verdict} becomes {verdicts_after.get(setting, 'no runs left to compare')}"
        for setting, (label, verdict) in verdicts_before.items()
        if verdicts_after.get(setting) != verdict
    ]
    sentences.append(f"Verdicts that change: {'; '.join(changed)}." if changed else "No verdict changes.")
    return sentences


def relation_numbers(relation: Relation) -> str:
    """Format the coefficient of a relation, its p and its sample."""
    value = MISSING if relation.value is None else two_decimals(relation.value)
    p = "" if relation.p is None else f" (p = {format_p_value(relation.p)})"
    sample = _values_of_lambda(relation) if relation.lambdas else plural(relation.settings, "setting")
    crossed = (
        f", {plural(relation.settings, 'setting')}"
        if relation.lambdas and relation.settings != sum(relation.lambdas)
        else ""
    )
    return f"rank correlation {value}{p} across {sample}{crossed}"


def format_p_value(p: float | None) -> str:
    """Format a p-value with two digits, never rounded to 0: 0.031, 0.0002, 0.25."""
    return MISSING if p is None else number(p, 2)


def is_too_early(runs: Sequence[AnyRun]) -> bool:
    """Return whether it is too early for any conclusion."""
    return not any(run.performance is not None for run in runs)


def _values_of_lambda(relation: Relation) -> str:
    if len(relation.lambdas) <= 1:
        return plural(sum(relation.lambdas), "value of λ", "values of λ")
    return f"{' + '.join(map(count, relation.lambdas))} values of λ"


def pooled_relation(pooled: PooledTests) -> str:
    """Describe the relation pooled over data sets. Runs are compared only within a data set."""
    relation = pooled.relation
    scope = f"Over all {count(pooled.measured)} data sets and metrics, each within itself"
    if relation.p is None:
        return f"{scope}: no relation can be tested."
    if relation.p > SIGNIFICANCE_LEVEL:
        return f"{scope}: no clear relation, {relation_numbers(relation)}."
    direction = "better" if relation.positive else "worse"
    return f"{scope}: the more isotropic a setting, the {direction} it does, {relation_numbers(relation)}."
