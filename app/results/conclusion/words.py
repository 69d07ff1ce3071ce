"""Sentences of a conclusion: findings, the tests behind them, and how they are computed."""

from app.core.evidence import SIGNIFICANCE_LEVEL, min_lambdas
from app.results.captions import join_first
from app.results.conclusion.comparisons import DECIDED
from app.results.conclusion.evidence import FLAT_MARGIN, Evidence, PooledRelation, RelationShape
from app.results.run_table import RunTable
from app.results.statistics.relation import Relation
from isoscope.core.formatting import MISSING, capitalized, count, number, plural, two_decimals


def describe_collapse(evidence: Evidence) -> list[str]:
    """Return sentences on the settings that collapsed, after one on the baseline if nothing can be compared with it."""
    sentences = []
    if evidence.baseline_collapsed:
        sentences.append(f"The baseline collapsed, so no setting is compared with it. {describe_learned(evidence)}")
    if evidence.collapsed:
        settings = [
            f"{collapse.label} ({collapse.collapsed} of {plural(collapse.seeds, 'seed')})"
            for collapse in evidence.collapsed
        ]
        example = f"{evidence.collapsed[0].label}: {evidence.collapsed[0].why}"
        sentences.append(f"Collapsed: {join_first(settings)}. For example, {example}")
    return sentences


def describe_learned(evidence: Evidence) -> str:
    return f"Learned: {join_first(evidence.learned)}." if evidence.learned else "No setting learned."


def describe_verdicts(evidence: Evidence) -> str:
    """List the settings that are better or worse than their baselines; empty if none are."""
    labels_by_verdict = {
        verdict: [comparison.label for comparison in evidence.comparisons if comparison.verdict is verdict]
        for verdict in DECIDED
    }
    return ", ".join(f"{join_first(labels)} {verdict}" for verdict, labels in labels_by_verdict.items() if labels)


def describe_shape(evidence: Evidence) -> str:
    """Describe the shape of the relation between isotropy and performance in a sentence."""
    relation = evidence.relation
    numbers = describe_relation(evidence)
    if evidence.shape is RelationShape.PEAK:
        return (
            f"Performance peaks at {evidence.peak}, above both the least and the most isotropic setting over λ by "
            f"intervals that hold at once ({numbers})."
        )
    if evidence.direction is not None:
        is_correlation_positive = (relation.value or 0) > 0
        condition = "" if relation.positive == is_correlation_positive else ", compared at the same λ"
        return f"The more isotropic a setting, the {evidence.direction} it does{condition}: {numbers}."
    if evidence.shape is RelationShape.FLAT:
        return (
            f"Performance is flat over isotropy: all intervals lie within ±{FLAT_MARGIN} of the baseline ({numbers})."
        )
    if relation.p is None:
        problem = "No relation can be tested" if relation.value is None else f"The relation cannot be tested: {numbers}"
        return f"{problem}. {relation.reason}"
    if relation.smallest_p is not None and relation.smallest_p > SIGNIFICANCE_LEVEL:
        return (
            f"{_count_lambdas(relation)} are too few to show a relation between isotropy and performance: p cannot "
            f"fall below {format_p_value(relation.smallest_p)}; it takes {min_lambdas()} values. Here: {numbers}."
        )
    return f"No clear relation between isotropy and performance: {numbers}."


def describe_effect(evidence: Evidence) -> str:
    """Say in a sentence whether settings differ in performance at all."""
    if evidence.unfinished:
        verb = "has" if evidence.unfinished == 1 else "have"
        return f"{capitalized(plural(evidence.unfinished, 'run'))} {verb} not ended. Verdicts appear when all have."
    if verdicts := describe_verdicts(evidence):
        return f"Against the baseline: {verdicts}."
    overall = evidence.overall
    if overall is None or overall.p is None:
        if evidence.collapsed and len(evidence.learned) < 2:
            return "Whether settings differ cannot be tested: it takes two that did not collapse."
        return "Whether settings differ cannot be tested yet: finish two settings with the same three seeds."
    numbers = f"p = {format_p_value(overall.p)}, {plural(overall.settings, 'setting')}"
    settings = "settings that did not collapse" if evidence.collapsed else "settings"
    if not overall.decided:
        return f"No clear difference between {settings}: {numbers}."
    trend = ""
    if overall.trend is not None and evidence.shape is not RelationShape.PEAK:
        trend = f" Performance {'rises' if overall.trend > 0 else 'falls'} with λ."
    return f"{capitalized(settings)} differ in performance from each other: {numbers}.{trend}"


def describe_relation_method(relation: Relation, sweep: RunTable) -> str:
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
        f"The smallest p that {_count_lambdas(relation)} can reach is {format_p_value(relation.smallest_p)}. "
        f"{assumption} "
        "Assumption: if there is no relation, every order of the values of λ is equally likely. Two smooth trends over "
        "λ can agree by chance, so few values of λ show that isotropy and performance go together, not that one causes "
        "the other."
    )


def describe_relation(evidence: Evidence) -> str:
    """Format a sweep's relation. A small p is no claim if settings do not clearly differ, and the text says so."""
    p = evidence.relation.p
    is_unclaimed = evidence.shape is RelationShape.UNCLEAR and p is not None and p <= SIGNIFICANCE_LEVEL
    return f"{format_relation(evidence.relation)}{', but settings do not clearly differ' if is_unclaimed else ''}"


def format_relation(relation: Relation) -> str:
    """Format the coefficient of a relation, its p and its sample."""
    value = MISSING if relation.value is None else two_decimals(relation.value)
    p = "" if relation.p is None else f" (p = {format_p_value(relation.p)})"
    settings = plural(relation.settings, "setting")
    sample = _count_lambdas(relation) if relation.lambdas else settings
    if relation.lambdas and relation.settings != sum(relation.lambdas):
        sample += f", {settings}"
    return f"rank correlation {value}{p} across {sample}"


def format_p_value(p: float | None) -> str:
    """Format a p-value with two digits, never rounded to 0: 0.031, 0.0002, 0.25."""
    return MISSING if p is None else number(p, 2)


def _count_lambdas(relation: Relation) -> str:
    if len(relation.lambdas) <= 1:
        return plural(sum(relation.lambdas), "value of λ", "values of λ")
    return f"{' + '.join(map(count, relation.lambdas))} values of λ"


def describe_pooled_relation(pooled: PooledRelation) -> str:
    """Describe the relation pooled over data sets. Runs are compared only within a data set."""
    relation = pooled.relation
    scope = f"Pooled over {count(pooled.n_sweeps)} data sets and metrics, comparing only within each"
    if relation.p is None:
        return f"{scope}: no relation can be tested."
    if relation.p > SIGNIFICANCE_LEVEL:
        return f"{scope}: no clear relation, {format_relation(relation)}."
    direction = "better" if relation.positive else "worse"
    return f"{scope}: the more isotropic a setting, the {direction} it does, {format_relation(relation)}."
