"""Each setting against λ = 0, in words: what the verdicts generalize to, which number to quote, what it would take."""

from typing import NamedTuple

from app.core.evidence import MIN_SEEDS, SIGNIFICANCE_LEVEL
from app.results.conclusion.comparisons import Comparison, Method
from app.results.conclusion.evidence import Evidence
from app.results.conclusion.words import format_p_value
from app.results.run_table import RunTable, Setting
from app.results.statistics.verdict import NeededSize, Verdict
from isoscope.core.formatting import MISSING, count, number, plural

MOST_DECIMALS = 8
DECIDED = (Verdict.BETTER, Verdict.WORSE)


class VerdictRow(NamedTuple):
    """A row of the table of verdicts, in words."""

    setting: Setting
    label: str
    verdict: str
    decided: bool
    difference: str
    interval: str
    p_adjusted: str
    seeds: str
    rows: str
    to_decide: str
    exact: str
    """p of the exact test, corrected by Holm."""


def verdict_row(comparison: Comparison) -> VerdictRow:
    """Return the table's row for a setting compared with λ = 0."""
    judged = comparison.judgment
    interval_text = (
        format_interval(judged.low, judged.high)
        if judged.low is not None and judged.high is not None
        else format_rows_only(comparison)
    )
    return VerdictRow(
        comparison.setting,
        comparison.label,
        judged.verdict.value,
        judged.verdict in DECIDED,
        format_signed(comparison.estimate),
        interval_text or MISSING,
        format_p_value(judged.p_adjusted),
        count(len(comparison.seeds)),
        count(comparison.rows),
        describe_needed(comparison) or MISSING,
        format_p_value(comparison.p_holm),
    )


def verdict_scope(evidence: Evidence) -> list[str]:
    """Describe which seeds and rows the verdicts hold for."""
    judged = [comparison for comparison in evidence.comparisons if comparison.judgment.p is not None]
    if not judged:
        return []
    sentences = []
    rows = sorted({comparison.rows for comparison in judged if comparison.rows is not None})
    if rows:
        n_rows = count(rows[0]) if len(rows) == 1 else f"{count(rows[0])} to {count(rows[-1])}"
        sentences.append(
            f"Intervals over rows and seeds: a verdict holds for new seeds and new rows like these {n_rows} validation "
            "rows."
        )
    if any(comparison.method is Method.SEEDS for comparison in judged):
        sentences.append(
            "Intervals over seeds only: a verdict holds for new seeds on these validation rows. Other rows may differ."
        )
    return sentences


def describe_methods(evidence: Evidence, sweep: RunTable) -> list[str]:
    """Describe how settings are compared, and with which certainty."""
    if not evidence.comparisons:
        if sweep.methods or evidence.unpaired:
            return []
        return ["All runs are plain training, so there is no λ to compare with λ = 0."]
    sentences = ["Verdicts: each setting is compared with λ = 0, paired by seed."]
    used_methods = {comparison.method for comparison in evidence.comparisons}
    if Method.SEEDS_AND_ROWS in used_methods:
        sentences.append(
            "Where predictions are stored, differences are taken by row: two-way random effects of seeds and rows, "
            "Student’s t with Satterthwaite’s degrees of freedom, and for several comparisons wider intervals that "
            "allow for how little few seeds tell of their own variance. Metrics that are no mean over rows use "
            "jackknife values of the rows."
        )
    if Method.SEEDS in used_methods:
        reasons = sorted(
            {comparison.no_rows_reason for comparison in evidence.comparisons if comparison.no_rows_reason}
        )
        sentences.append(f"Otherwise by the paired t-test over seeds, because {'; '.join(reasons)}.")
    family = max(comparison.judgment.comparisons for comparison in evidence.comparisons)
    if family > 1:
        sentences.append(
            f"p and intervals are adjusted for {count(family)} comparisons in a single step (Bonferroni), so that all "
            "intervals hold at once in at least 95% of cases, and a verdict and its interval never disagree."
        )
    sentences.append(
        "Intervals are conservative where comparisons are many, or where neither seeds nor rows vary much: there they "
        "cover more than 95%."
    )
    return [*sentences, _describe_exact_test(evidence)]


def _describe_exact_test(evidence: Evidence) -> str:
    correction = ", corrected by Holm," if len(evidence.comparisons) > 1 else ""
    sentence = f"The exact sign-flip test{correction} assumes less and needs more seeds; it never decides the verdict."
    smallest_p, seeds_needed = evidence.smallest_p_holm, evidence.comparisons[0].flip_seeds_needed
    if smallest_p is None or smallest_p <= SIGNIFICANCE_LEVEL:
        return sentence
    requirement = (
        f"it needs {seeds_needed} seeds" if seeds_needed else "no number of seeds suffices for this many settings"
    )
    return f"{sentence} With these seeds it cannot fall below {format_p_value(smallest_p)}: {requirement}."


def quote(comparison: Comparison) -> str:
    """Format the number to quote of a comparison, with its setting, interval, seeds and rows."""
    judged, size = comparison.judgment, plural(len(comparison.seeds), "seed")
    if comparison.rows is not None:
        size += f" × {plural(comparison.rows, 'validation row')}"
    if judged.low is None or judged.high is None:
        return f"{comparison.label}: {format_signed(comparison.estimate)}, {size}, no interval"
    scope = f", simultaneous over {count(judged.comparisons)} comparisons" if judged.comparisons > 1 else ""
    bounds = format_interval(judged.low, judged.high)
    return f"{comparison.label}: {format_signed(comparison.estimate)} {bounds}, 95%{scope}, {size}"


def recommend_quote(evidence: Evidence) -> str:
    """Describe which number to quote, with the clearest one as an example; empty without comparisons."""
    if not evidence.comparisons:
        return ""
    judged = [comparison for comparison in evidence.comparisons if comparison.judgment.p is not None]
    if not judged:
        return f"Do not quote a difference yet: no verdict stands on fewer than {MIN_SEEDS} seeds."
    # Prefer settings that have not failed: how far a failed one falls behind is not worth quoting.
    remaining_settings = (
        {comparison.setting for comparison in evidence.without_flagged.comparisons}
        if evidence.without_flagged
        else set()
    )
    judged = [comparison for comparison in judged if comparison.setting in remaining_settings] or judged
    surest = min(judged, key=lambda comparison: (comparison.judgment.p or 0.0, -abs(comparison.estimate)))
    return f"Quote the difference with its interval: {quote(surest)}. Not p of the exact test."


def describe_needed(comparison: Comparison) -> str:
    """Describe how many seeds or rows would decide a comparison; empty if it is decided."""
    if comparison.judgment.verdict in DECIDED:
        return ""
    if comparison.judgment.verdict is Verdict.TOO_FEW:
        if len(comparison.seeds) < MIN_SEEDS:
            return f"{MIN_SEEDS} seeds or more"
        restriction = "that do not all differ by the same amount"
        return f"rows {restriction}" if comparison.rows is not None else f"seeds {restriction}, or stored predictions"
    needed_sizes = comparison.judgment.needed
    return _needed_words(needed_sizes) if needed_sizes else ""


def _needed_words(sizes: NeededSize) -> str:
    if sizes.seeds:
        return f"about {plural(sizes.seeds, 'seed')}"
    return f"about {plural(sizes.rows, 'row')}; more seeds are not enough" if sizes.rows else "more seeds and more rows"


def format_rows_only(comparison: Comparison) -> str:
    """Format an interval for these runs alone if seeds are too few; empty with a verdict or without scores by row."""
    bounds = comparison.rows_only
    if bounds is None:
        return ""
    test = "McNemar" if bounds.mcnemar else "t over rows"
    runs_phrase = "these two runs" if len(comparison.seeds) == 1 else "these very runs"
    interval, p = format_interval(bounds.low, bounds.high), format_p_value(bounds.p)
    return f"{interval} for {runs_phrase} on new rows (p = {p}, {test})"


def format_interval(low: float, high: float) -> str:
    """Format an interval with the digits that its width allows: [0.003, 0.021]. Only an end that is 0 reads 0."""
    decimals = len(number(high - low, 2).partition(".")[2]) if high > low else 3
    while decimals < MOST_DECIMALS and any(end and not round(end, decimals) for end in (low, high)):
        decimals += 1
    return f"[{_rounded(low, decimals)}, {_rounded(high, decimals)}]"


def format_signed(value: float) -> str:
    """Format a difference with its sign: +0.012, −0.190."""
    return ("+" if value > 0 else "") + number(value)


def _rounded(value: float, decimals: int) -> str:
    return f"{value:z,.{min(decimals, MOST_DECIMALS)}f}".replace("-", "−")
