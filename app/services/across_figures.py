"""The figures of runs of any experiments by their slugs."""

from app.context import Context
from app.figures.figure import Figure
from app.results.column_labels import inside
from app.results.conclusion.conclusion import Conclusion
from app.results.metrics import SCALES
from app.results.run_set import COMPARABLE, COORDINATES, Measured, RunSet
from app.results.sweep import Sweep
from app.services.across import Chosen
from app.services.conclusions import read_conclusion
from app.services.sweep_figures import FIGURES, Asked, SweepQuery, with_what_they_need
from isoscope.core.errors import NotFoundError
from isoscope.core.formatting import count, plural
from isoscope.core.task import TaskKind


def read_across(context: Context, chosen: Chosen, slug: str, on: str, look: SweepQuery) -> Figure:
    """One figure of the runs on one data set by one metric, those on which the most have finished unless it is said."""
    if slug not in offered_of(chosen.gathered):
        raise NotFoundError(f"There is no figure {slug!r} of these runs.")
    return draw_across(context, sweep_across(chosen, on), slug, look)


def sweep_across(chosen: Chosen, on: str) -> Sweep:
    """The runs that figures are of, told apart by what groups are made of."""
    if not chosen.gathered.runs:
        return chosen.gathered.sweep(())
    return chosen.gathered.on(measured_on(chosen.gathered, on)).sweep(chosen.fields)


def conclude_across(context: Context, chosen: Chosen, on: str) -> Conclusion:
    """Return what the runs say on one data set by one metric, and what all of them say together."""
    gathered = chosen.gathered
    if not gathered.runs:
        return read_conclusion(context, gathered.sweep(()))
    shown = measured_on(gathered, on)
    others = [gathered.on(measured).sweep(chosen.fields) for measured in gathered.measured if measured != shown]
    return read_conclusion(context, gathered.on(shown).sweep(chosen.fields), others)


def draw_across(context: Context, sweep: Sweep, slug: str, look: SweepQuery) -> Figure:
    """One figure of some runs at least, all of which have the metric of the first one's experiment."""
    return FIGURES[slug].draw(Asked(context, sweep.runs[0].experiment, sweep, look, [run.id for run in sweep.runs]))


def offered_of(gathered: RunSet) -> list[str]:
    """The figures that they can have, besides those of a search for the best λ: see ``sweep_figures.offered``."""
    if not gathered.runs:
        return []
    classes = any(run.config.task is TaskKind.CLASSIFICATION for run in gathered.runs)
    return with_what_they_need({"classes": classes, "search": False})


def measured_in_words(gathered: RunSet) -> dict[str, str]:
    """What figures can be of, by what the URL says: the data set and the metric in words."""
    return {
        on_of(measured): f"{gathered.datasets[measured.dataset_id]}, {SCALES[measured.metric].title}"
        for measured in gathered.measured
    }


def on_of(measured: Measured) -> str:
    """A data set and a metric as the URL says them."""
    return f"{measured.dataset_id}.{measured.metric}"


def measured_on(gathered: RunSet, on: str) -> Measured:
    """The data set and metric asked for, or where no run is on them those on which the most have finished."""
    return next((measured for measured in gathered.measured if on_of(measured) == on), next(iter(gathered.measured)))


def cautions(chosen: Chosen, on: str) -> list[str]:
    """What a reader has to know before comparing, each a sentence or two."""
    gathered = chosen.gathered
    if not gathered.runs:
        return []
    measured = measured_on(gathered, on)
    shown = gathered.on(measured)
    told = []
    if len(gathered.measured) > 1:
        what = " and ".join(
            plural(len(several), noun)
            for noun, several in (
                ("data set", gathered.datasets),
                ("metric", {one.metric for one in gathered.measured}),
            )
            if len(several) > 1
        )
        told.append(
            f"These runs are of {what}, between which performance cannot be compared. Figures show "
            f"{measured_in_words(gathered)[on_of(measured)]}: {count(len(shown.runs))} of "
            f"{plural(len(gathered.runs), 'run')}. The table of means has a column for each."
        )
    if "evaluation_zeta" in shown.differing:
        told.append("IsoScore★ was taken at different ζ, between which it cannot be compared. No mean is over several.")
    if others := shown.beside([*chosen.fields, *COORDINATES, *COMPARABLE]):
        named = ", ".join(inside(field) for field in others)
        told.append(f"Some points are means over runs that differ in {named} too.")
    return told
