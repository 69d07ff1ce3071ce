"""Each setting against λ = 0, in words: what the verdicts generalize to, which number to quote, what it would take."""

from typing import NamedTuple

from app.core.evidence import FEWEST_SEEDS, LEVEL
from app.results.conclusion.comparisons import Comparison, Method
from app.results.conclusion.evidence import Evidence
from app.results.conclusion.words import p_value
from app.results.run_table import RunTable
from app.results.setting import Setting
from app.results.statistics.verdict import Needed, Verdict
from isoscope.core.formatting import MISSING, count, number, plural

MOST_DECIMALS = 8
DECIDED = (Verdict.BETTER, Verdict.WORSE)


class Line(NamedTuple):
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


def line(one: Comparison) -> Line:
    """Return a setting against λ = 0 as the table tells it."""
    judged = one.judged
    told = interval(judged.low, judged.high) if judged.low is not None and judged.high is not None else rows_only(one)
    return Line(
        one.setting,
        one.label,
        judged.verdict.value,
        judged.verdict in DECIDED,
        signed(one.estimate),
        told or MISSING,
        p_value(judged.p_adjusted),
        count(len(one.seeds)),
        count(one.rows),
        needed(one) or MISSING,
        p_value(one.p_holm),
    )


def population(found: Evidence) -> list[str]:
    """What the verdicts hold for: which seeds, and which rows."""
    judged = [one for one in found.comparisons if one.judged.p is not None]
    if not judged:
        return []
    said = []
    rows = sorted({one.rows for one in judged if one.rows is not None})
    if rows:
        which = count(rows[0]) if len(rows) == 1 else f"{count(rows[0])} to {count(rows[-1])}"
        said.append(
            f"Intervals over rows and seeds: a verdict holds for new seeds and new rows like these {which} validation "
            "rows."
        )
    if any(one.method is Method.SEEDS for one in judged):
        said.append(
            "Intervals over seeds only: a verdict holds for new seeds on these validation rows. Other rows may differ."
        )
    return said


def methods(found: Evidence, sweep: RunTable) -> list[str]:
    """How settings are compared, and how sure that is."""
    if not found.comparisons:
        if sweep.methods or found.unpaired:
            return []
        return ["All runs are plain training, so there is no λ to compare with λ = 0."]
    said = ["Verdicts: each setting is compared with λ = 0, paired by seed."]
    used = {one.method for one in found.comparisons}
    if Method.SEEDS_AND_ROWS in used:
        said.append(
            "Where predictions are stored, differences are taken by row: two-way random effects of seeds and rows, "
            "Student’s t with Satterthwaite’s degrees of freedom, and for several comparisons wider intervals that "
            "allow for how little few seeds tell of their own variance. Metrics that are no mean over rows use "
            "jackknife values of the rows."
        )
    if Method.SEEDS in used:
        why = sorted({one.without_rows for one in found.comparisons if one.without_rows})
        said.append(f"Otherwise by the paired t-test over seeds, because {'; '.join(why)}.")
    several = max(one.judged.comparisons for one in found.comparisons)
    if several > 1:
        said.append(
            f"p and intervals are adjusted for {count(several)} comparisons in a single step (Bonferroni), so that all "
            "intervals hold at once in at least 95% of cases, and a verdict and its interval never disagree."
        )
    said.append(
        "Intervals are conservative where comparisons are many, or where neither seeds nor rows vary much: there they "
        "cover more than 95%."
    )
    return [*said, _exact(found)]


def _exact(found: Evidence) -> str:
    corrected = ", corrected by Holm," if len(found.comparisons) > 1 else ""
    said = f"The exact sign-flip test{corrected} assumes less and needs more seeds; it never decides the verdict."
    floor, need = found.smallest_p_holm, found.comparisons[0].flips_need
    if floor is None or floor <= LEVEL:
        return said
    enough = f"it needs {need} seeds" if need else "no number of seeds suffices for this many settings"
    return f"{said} With these seeds it cannot fall below {p_value(floor)}: {enough}."


def quote(one: Comparison) -> str:
    """The number to quote of a comparison, complete with what it is of."""
    judged, size = one.judged, plural(len(one.seeds), "seed")
    if one.rows is not None:
        size += f" × {plural(one.rows, 'validation row')}"
    if judged.low is None or judged.high is None:
        return f"{one.label}: {signed(one.estimate)}, {size}, no interval"
    at_once = f", simultaneous over {count(judged.comparisons)} comparisons" if judged.comparisons > 1 else ""
    return f"{one.label}: {signed(one.estimate)} {interval(judged.low, judged.high)}, 95%{at_once}, {size}"


def to_quote(found: Evidence) -> str:
    """Which number of the table to quote, by the example of the surest; empty where nothing is compared."""
    if not found.comparisons:
        return ""
    judged = [one for one in found.comparisons if one.judged.p is not None]
    if not judged:
        return f"Do not quote a difference yet: no verdict stands on fewer than {FEWEST_SEEDS} seeds."
    # Nobody should quote by how much a setting fails, as long as there is another.
    kept = {one.setting for one in found.without.comparisons} if found.without else set()
    judged = [one for one in judged if one.setting in kept] or judged
    surest = min(judged, key=lambda one: (one.judged.p or 0.0, -abs(one.estimate)))
    return f"Quote the difference with its interval: {quote(surest)}. Not p of the exact test."


def needed(one: Comparison) -> str:
    """What it would take to decide; empty where it is decided."""
    if one.judged.verdict in DECIDED:
        return ""
    if one.judged.verdict is Verdict.TOO_FEW:
        if len(one.seeds) < FEWEST_SEEDS:
            return f"{FEWEST_SEEDS} seeds or more"
        same = "that do not all differ by the same amount"
        return f"rows {same}" if one.rows is not None else f"seeds {same}, or stored predictions"
    wanted = one.judged.needed
    return _wanted(wanted) if wanted else ""


def _wanted(found: Needed) -> str:
    if found.seeds:
        return f"about {plural(found.seeds, 'seed')}"
    return f"about {plural(found.rows, 'row')}; more seeds are not enough" if found.rows else "more seeds and more rows"


def rows_only(one: Comparison) -> str:
    """What so few seeds tell of these very runs; empty where there is a verdict or nothing is known by row."""
    found = one.rows_only
    if found is None:
        return ""
    test = "McNemar" if found.mcnemar else "t over rows"
    runs = "these two runs" if len(one.seeds) == 1 else "these very runs"
    return f"{interval(found.low, found.high)} for {runs} on new rows (p = {p_value(found.p)}, {test})"


def interval(low: float, high: float) -> str:
    """An interval to the digits that its width allows, an end beside 0 never rounded to it: [0.003, 0.021]."""
    decimals = len(number(high - low, 2).partition(".")[2]) if high > low else 3
    while decimals < MOST_DECIMALS and any(end and not round(end, decimals) for end in (low, high)):
        decimals += 1
    return f"[{_rounded(low, decimals)}, {_rounded(high, decimals)}]"


def signed(value: float) -> str:
    """A difference with its sign: +0.012, −0.190."""
    return ("+" if value > 0 else "") + number(value)


def _rounded(value: float, decimals: int) -> str:
    return f"{value:z,.{min(decimals, MOST_DECIMALS)}f}".replace("-", "−")
