"""A conclusion in words: what the runs say, what they cannot say, and what flatters them."""

from collections.abc import Sequence

from app.conclusion.evidence import LEVEL, Evidence
from app.db.config import Checkpoint, Selection
from app.db.models import Run, RunStatus
from app.figures.points import finished, given_up, named, unscored
from app.figures.sweep import Sweep
from app.numerals import MISSING, count, number, plural, two_decimals
from app.statistics.correlation import Coefficient, Correlation
from app.statistics.paired import pairs_needed


def headline(found: Evidence) -> str:
    """Whether isotropy and performance go together over the runs, in a sentence."""
    measured = found.correlation
    rank = measured.spearman
    if rank.value is None:
        return rank.reason or ""
    numbers = _numbers(measured, found)
    if rank.p is None or rank.p > LEVEL:
        linear = measured.pearson.p is not None and measured.pearson.p <= LEVEL
        mind = " Only Pearson’s p is small, as one setting far from the others can make it: ranks decide."
        sentence = f"By rank it cannot be told from chance whether isotropy and performance go together: {numbers}."
        return sentence + (mind if linear else "")
    which = "better" if rank.positive else "worse"
    where = "" if rank.positive == (rank.value > 0) else ", against runs of the same seed"
    return f"The more isotropic a run, the {which} it does{where}: {numbers}."


def without_alike(found: Evidence, sweep: Sweep) -> str:
    """The same correlation without settings whose seeds all score alike; empty where there is none such."""
    rest = found.without_alike
    if rest is None or rest.spearman.value is None:
        return ""
    return f"Without {named(_labels(found, sweep))}, whose seeds all score alike: {_numbers(rest, found)}."


def permuted(found: Evidence, sweep: Sweep) -> str:
    """What the p-values of the correlations are of; empty where there is no correlation."""
    measured = found.correlation
    if measured.spearman.value is None:
        return ""
    if measured.spearman.p is None:
        return measured.spearman.reason or ""
    within = f"seed and {_fields(found)}" if found.within else "seed"
    least = ""
    if measured.smallest_p is not None and measured.smallest_p > LEVEL:
        least = f" So few runs cannot give a p below {p_value(measured.smallest_p)}."
    how = f"all {count(measured.permutations)}" if measured.exact else f"{count(measured.permutations)} random"
    begin = (
        "are taken to begin alike, as their script did not say otherwise"
        if any(run.config.get("logged") for run in sweep.runs)
        else "begin with the same weights and read the rows in the same order"
    )
    return (
        f"p is two-sided, by {how} permutations of settings within {within}: runs of one seed {begin}, so only which "
        f"settings they had is exchanged.{least}"
    )


def tested(found: Evidence, sweep: Sweep) -> list[str]:
    """What was done to compare, and what so few seeds can show."""
    if not found.differences:
        if sweep.methods or found.unpaired:
            return []
        return ["All runs are plain training, so there is no λ to compare with λ = 0."]
    sizes = [len(one.seeds) for one in found.differences]
    low, high = min(sizes), max(sizes)
    seeds = plural(low, "seed") if low == high else f"{low} to {high} seeds"
    several = len(found.differences)
    corrected = f", corrected by Holm for {plural(several, 'setting')}" if several > 1 else ""
    exact = all(one.flips.exact for one in found.differences)
    how = "all flips of sign" if exact else f"{count(max(one.flips.flips for one in found.differences))} flips of sign"
    said = [f"Paired by seed ({seeds}); p is two-sided, by {how} of the differences{corrected}."]
    if high > 1:
        said.append(
            "Intervals take the differences for normal (Student’s t), and p takes nothing but that either sign is as "
            "likely, for which it needs more seeds: an interval may leave out 0 where p cannot tell."
        )
    floor, smallest = found.smallest_p_holm, min(one.flips.smallest_p for one in found.differences)
    if floor is not None and floor > LEVEL:
        after = f", {p_value(floor)} after Holm" if several > 1 else ""
        needed = pairs_needed(LEVEL, several)
        enough = (
            f"That takes {needed} seeds or more." if needed else "No number of seeds is enough for so many settings."
        )
        said.append(
            f"The smallest p that {plural(high, 'seed')} can reach is {p_value(smallest)}{after}: no difference can "
            f"fall below {LEVEL}, however great. {enough}"
        )
    return said


def cautions(found: Evidence, sweep: Sweep) -> list[str]:
    """What speaks against reading more into the numbers: trainings that may have failed, and what was chosen."""
    runs = finished(sweep)
    said = []
    if found.alike:
        scores = named([
            f"{label} ({number(of_one[0])} in {plural(len(of_one), 'seed')})"
            for label, of_one in zip(_labels(found, sweep), found.alike.values(), strict=True)
        ])  # fmt: skip
        said.append(
            f"All seeds score alike, as models do that have learned to answer the same to everything: {scores}. "
            "Their loss curves tell whether the training failed."
        )
    if any(run.experiment.study for run in sweep.runs):
        said.append("A study chose λ by the results before it, so the runs are not independent and no p is exact.")
    if chosen := sum(map(_chose_on_validation, runs)):
        which = "The runs" if chosen == len(runs) else f"{count(chosen)} of {plural(len(runs), 'run')}"
        said.append(f"{which} chose their checkpoint or their end on the validation rows shown, which flatters them.")
    if len(found.differences) > 1:
        said.append("A λ picked here is chosen on the rows shown: report it on rows that chose nothing.")
    return said


def left_out(sweep: Sweep, found: Evidence) -> list[str]:
    """Which runs the numbers are not of, and which of them count as one."""
    said = [performance] if (performance := unscored(sweep).replace("Not drawn", "Left out").strip()) else []
    if without := sum(run.performance is not None and run.isoscore_star is None for run in finished(sweep)):
        said.append(f"Not in the correlation, because IsoScore★ is undefined: {plural(without, 'run')}.")
    if failed := [run for run in sweep.runs if run.status is RunStatus.FAILED]:
        of = named([sweep.label(setting) for setting in sweep.by_setting(failed)])
        runs = plural(len(failed), "run")
        said.append(f"Not in any number, because they failed, so that only other seeds count: {runs} of {of}.")
    if flattered := given_up(sweep, "Left out").strip():
        said.append(flattered)
    if found.repeated:
        said.append(
            "Run more than once, and counted once, by the mean of such runs, in the correlation and in the "
            f"comparison: {named(found.repeated)}."
        )
    return said


def p_value(p: float | None) -> str:
    """A p-value to two digits, never rounded to nothing: 0.031, 0.0002, 0.25."""
    return MISSING if p is None else number(p, 2)


def waiting(runs: Sequence[Run]) -> bool:
    """Whether it is too early to say anything."""
    return not any(run.performance is not None for run in runs)


def _numbers(measured: Correlation, found: Evidence) -> str:
    """Both coefficients with their p-values, and of how many runs they are."""
    within = f", each within its {_fields(found)}" if found.within else ""
    once = ", repeated ones counted once" if found.repeated else ""
    coefficients = f"Spearman {_coefficient(measured.spearman)}, Pearson {_coefficient(measured.pearson)}"
    return f"{coefficients}, over {plural(measured.n, 'run')}{once}{within}"


def _labels(found: Evidence, sweep: Sweep) -> list[str]:
    return [sweep.label(setting) for setting in found.alike]


def _fields(found: Evidence) -> str:
    return " and ".join(field.replace("_", " ") for field in found.within)


def _coefficient(found: Coefficient) -> str:
    value = MISSING if found.value is None else two_decimals(found.value)
    return value if found.p is None else f"{value} (p = {p_value(found.p)})"


def _chose_on_validation(run: Run) -> bool:
    config = run.config
    chose = config.get("checkpoint") == Checkpoint.BEST or config.get("patience") is not None
    return chose and config.get("selection") == Selection.VALIDATION
