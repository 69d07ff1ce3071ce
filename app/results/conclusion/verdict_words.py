"""Words for the comparisons of settings with λ = 0: table rows, scope, methods, and the number to quote."""

from typing import NamedTuple

from app.core.evidence import MIN_SEEDS, look_level
from app.results.conclusion.comparisons import DECIDED, Comparison, Method, Verdict
from app.results.conclusion.evidence import Evidence
from app.results.conclusion.words import format_p_value
from app.results.run_table import RunTable, Setting
from isoscope.core.formatting import MISSING, count, number, plural, short

MAX_DECIMALS = 8


class VerdictRow(NamedTuple):
    """A row of the table of verdicts, in words."""

    setting: Setting
    label: str
    verdict: str
    decided: bool
    difference: str
    interval: str
    pooled: str
    """The interval if seeds vary equally in all settings."""
    p_adjusted: str
    seeds: str
    rows: str


def make_verdict_row(comparison: Comparison) -> VerdictRow:
    contrast = comparison.contrast
    interval = pooled_interval = MISSING
    if contrast.low is not None and contrast.high is not None:
        interval = format_interval(contrast.low, contrast.high)
    if (half_width := contrast.pooled_half_width) is not None:
        pooled_interval = format_interval(comparison.estimate - half_width, comparison.estimate + half_width)
    return VerdictRow(
        setting=comparison.setting,
        label=comparison.label,
        verdict=comparison.verdict.value,
        decided=comparison.verdict in (*DECIDED, Verdict.COLLAPSED),
        difference=format_signed(comparison.estimate),
        interval=interval,
        pooled=pooled_interval,
        p_adjusted=format_p_value(contrast.p),
        seeds=count(len(comparison.seeds)) if comparison.seeds else MISSING,
        rows=count(comparison.n_rows) if comparison.n_rows is not None else MISSING,
    )


def describe_scope(evidence: Evidence) -> list[str]:
    """Say which seeds and rows the verdicts hold for."""
    judged = [comparison for comparison in evidence.comparisons if comparison.verdict in (*DECIDED, Verdict.UNDECIDED)]
    if not judged:
        return []
    sentences = []
    row_counts = sorted({comparison.n_rows for comparison in judged if comparison.n_rows is not None})
    if row_counts:
        low, high = count(row_counts[0]), count(row_counts[-1])
        n_rows = low if low == high else f"{low} to {high}"
        sentences.append(
            f"Intervals over rows and seeds: a verdict holds for new seeds and new rows like these {n_rows} validation "
            "rows."
        )
    if any(comparison.method is Method.SEEDS for comparison in judged):
        sentences.append(
            "Intervals over seeds only: a verdict holds for new seeds on these validation rows. Other rows may differ."
        )
    if evidence.looks > 1:
        sentences.append(
            f"Look {count(evidence.looks)}, at level {short(look_level(evidence.looks))}, because seeds were added and "
            "tested again. What an earlier look decided stands."
        )
    return sentences


def describe_methods(evidence: Evidence, sweep: RunTable) -> list[str]:
    """Describe how settings are compared, and what the intervals and levels mean."""
    if not evidence.comparisons:
        if sweep.methods or evidence.uncompared_notes:
            return []
        return ["All runs are plain training, so there is no λ to compare with λ = 0."]
    sentences = [
        "Verdicts: each setting is compared with λ = 0, paired by seed. One model of all runs, setting plus seed, "
        "gives every setting its own variance from seed to seed."
    ]
    methods = {comparison.method for comparison in evidence.comparisons if comparison.contrast.p is not None}
    if Method.SEEDS_AND_ROWS in methods:
        sentences.append(
            "Where predictions are stored, rows count as drawn too. Metrics that are no mean over rows use jackknife "
            "values of the rows."
        )
    if Method.SEEDS in methods:
        reasons = {comparison.no_rows_reason for comparison in evidence.comparisons if comparison.no_rows_reason}
        sentences.append(f"Otherwise seeds alone are the error, because {'; '.join(sorted(reasons))}.")
    sentences.append(
        "Intervals hold for all settings at once, in about 95% of sweeps or more (largest |t|, as in Dunnett’s test). "
        "The interval is the wider of two: with a variance for each setting, and with one for all. The second stands "
        "beside it: it is right if seeds vary equally in all settings."
    )
    if evidence.overall is not None and evidence.overall.p is not None:
        sentences.append(
            "Whether settings differ at all: each setting against the mean of all, and the trend over λ, as one family "
            "of the same model."
        )
    levels = ", ".join(short(look_level(look)) for look in (1, 2, 3))
    sentences.append(
        f"Each round of added seeds is one more look. Looks have levels of {levels} and so on, less than 0.05 in "
        "sum, so that 95% holds over all looks; p is adjusted for them too. The relation is tested once, without "
        "seeds added later, and claimed only where settings differ."
    )
    return sentences


def format_quote(comparison: Comparison) -> str:
    """Format a difference for quoting, with its setting, interval and sample size."""
    if comparison.verdict is Verdict.COLLAPSED:
        return f"{comparison.label}: collapsed, {format_signed(comparison.estimate)}"
    contrast, size = comparison.contrast, plural(len(comparison.seeds), "seed")
    if comparison.n_rows is not None:
        size += f" × {plural(comparison.n_rows, 'validation row')}"
    if contrast.low is None or contrast.high is None:
        return f"{comparison.label}: {format_signed(comparison.estimate)}, {size}, no interval"
    scope = f", simultaneous over {count(comparison.family_size)} comparisons" if comparison.family_size > 1 else ""
    scope += f", look {count(comparison.look)}" if comparison.look > 1 else ""
    interval = format_interval(contrast.low, contrast.high)
    return f"{comparison.label}: {format_signed(comparison.estimate)} {interval}, 95%{scope}, {size}"


def recommend_quote(evidence: Evidence) -> str:
    """Quote the difference with the smallest p, or say why to quote none; empty if none is compared or runs go on."""
    uncollapsed = [comparison for comparison in evidence.comparisons if comparison.verdict is not Verdict.COLLAPSED]
    if not uncollapsed or evidence.unfinished:
        return ""
    judged = [
        comparison
        for comparison in uncollapsed
        if comparison.verdict is not Verdict.TOO_FEW_SEEDS and comparison.contrast.p is not None
    ]
    if not judged:
        if min(len(comparison.seeds) for comparison in uncollapsed) >= MIN_SEEDS:
            return "Do not quote a difference: its error is unknown, because all seeds differ by the same amount."
        return f"Do not quote a difference yet: no verdict stands on fewer than {MIN_SEEDS} seeds."
    clearest = min(judged, key=lambda comparison: (comparison.contrast.p or 0.0, -abs(comparison.estimate)))
    return f"Quote the difference with its interval: {format_quote(clearest)}."


def format_interval(low: float, high: float) -> str:
    """Format an interval to the digits that its width allows: [0.003, 0.021]. Only an end at 0 is printed as 0."""
    decimals = len(number(high - low, 2).partition(".")[2]) if high > low else 3
    while decimals < MAX_DECIMALS and any(end and not round(end, decimals) for end in (low, high)):
        decimals += 1
    return f"[{_format_rounded(low, decimals)}, {_format_rounded(high, decimals)}]"


def format_signed(value: float) -> str:
    """Format a difference with its sign: +0.012, −0.190."""
    return ("+" if value > 0 else "") + number(value)


def _format_rounded(value: float, decimals: int) -> str:
    return f"{value:z,.{min(decimals, MAX_DECIMALS)}f}".replace("-", "−")
