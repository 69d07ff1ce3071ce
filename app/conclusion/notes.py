"""What was left out of a conclusion, and what speaks against reading more into it."""

from app.conclusion.evidence import Evidence
from app.db.models import Run, RunStatus
from app.db.options.measuring import Checkpoint, Selection
from app.figures.points import finished, given_up, named, unscored
from app.figures.sweep import Sweep
from app.numerals import count, plural


def cautions(found: Evidence, sweep: Sweep) -> list[str]:
    """Trainings that failed, and what was chosen on the rows shown."""
    runs = finished(sweep)
    said = []
    for flagged, what in ((found.learned_nothing, "learned nothing"), (found.diverged, "diverged")):
        if flagged:
            labels = named([one.label for one in flagged])
            said.append(f"{plural(len(flagged), 'run')} {what}: {labels}. {flagged[0].why}")
    if any(run.experiment.study for run in sweep.runs):
        said.append("A study chose λ by the results before it, so the runs are not independent and no p is exact.")
    if chosen := sum(map(_chose_on_validation, runs)):
        which = "The runs" if chosen == len(runs) else f"{count(chosen)} of {plural(len(runs), 'run')}"
        said.append(f"{which} chose their checkpoint or their end on the validation rows shown, which flatters them.")
    if len(found.comparisons) > 1:
        said.append("Choosing λ on these rows is optimistic. Report it on rows that chose nothing.")
    return said


def left_out(sweep: Sweep, found: Evidence) -> list[str]:
    """Which runs the numbers are not of, and which of them count as one."""
    said = [performance] if (performance := unscored(sweep).replace("Not drawn", "Left out").strip()) else []
    if without := sum(run.performance is not None and run.isoscore_star is None for run in finished(sweep)):
        said.append(f"Not in the relation, because IsoScore★ is undefined: {plural(without, 'run')}.")
    if failed := [run for run in sweep.runs if run.status is RunStatus.FAILED]:
        of = named([sweep.label(setting) for setting in sweep.by_setting(failed)])
        runs = plural(len(failed), "run")
        said.append(f"Not in any number, because they failed, so that only other seeds count: {runs} of {of}.")
    if flattered := given_up(sweep, "Left out").strip():
        said.append(flattered)
    if found.repeated:
        said.append(f"Run more than once, and counted once, by the mean of such runs: {named(found.repeated)}.")
    return said


def _chose_on_validation(run: Run) -> bool:
    config = run.config
    chose = config.get("checkpoint") == Checkpoint.BEST or config.get("patience") is not None
    return chose and config.get("selection") == Selection.VALIDATION
