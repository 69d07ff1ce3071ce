"""The figures of runs of any experiments by their slugs."""

from collections.abc import Callable

from app.context import Context
from app.db.task import TaskKind
from app.errors import NotFoundError
from app.figures.clusters import SILHOUETTE, isotropy_silhouette
from app.figures.depth import by_depth
from app.figures.figure import Figure
from app.figures.gathered import COMPARABLE, COORDINATES, Gathered, Scale
from app.figures.headings import head
from app.figures.metrics import SCALES
from app.figures.sweep import Sweep
from app.numerals import count, plural
from app.routes.pages.sweep_figures import FIGURES, Asked, SweepQuery
from app.services.across import Chosen
from app.services.run_data import list_by_layer

OF_ROWS = ("isotropy", "lambda", "methods")
"""Figures that read nothing besides the rows of runs, and so are those of an experiment."""
BY_LAYER: dict[str, Callable[[Context, Sweep], Figure]] = {
    SILHOUETTE: lambda context, sweep: isotropy_silhouette(sweep, list_by_layer(context, _ids(sweep), SILHOUETTE)),
    "twonn": lambda context, sweep: by_depth(sweep, list_by_layer(context, _ids(sweep), "twonn"), "twonn"),
}


def read_across(context: Context, chosen: Chosen, slug: str, on: str, look: SweepQuery) -> Figure:
    """One figure of the runs on one data set by one metric, those on which the most have finished unless it is said."""
    if slug not in offered_of(chosen.gathered):
        raise NotFoundError(f"There is no figure {slug!r} of these runs.")
    shown = chosen.gathered.on(scale_on(chosen.gathered, on))
    sweep = shown.sweep(chosen.fields)
    if slug in BY_LAYER:
        return BY_LAYER[slug](context, sweep)
    # All have the metric of the first one's experiment.
    return FIGURES[slug](Asked(context, shown.runs[0].experiment, sweep, look))


def offered_of(gathered: Gathered) -> list[str]:
    """The figures that they can have: none without a run, and without classes there is nothing to tell apart."""
    if not gathered.runs:
        return []
    classes = any(run.config.get("task") == TaskKind.CLASSIFICATION for run in gathered.runs)
    return [slug for slug in (*OF_ROWS, *BY_LAYER) if classes or slug != SILHOUETTE]


def scales_of(gathered: Gathered) -> dict[str, str]:
    """What figures can be of, by what the URL says: the data set and the metric in words."""
    return {
        on_of(scale): f"{gathered.datasets[scale.dataset_id]}, {SCALES[scale.metric].title}"
        for scale in gathered.scales
    }


def on_of(scale: Scale) -> str:
    """A data set and a metric as the URL says them."""
    return f"{scale.dataset_id}.{scale.metric}"


def scale_on(gathered: Gathered, on: str) -> Scale:
    """The data set and metric asked for, or where no run is on them those on which the most have finished."""
    return next((scale for scale in gathered.scales if on_of(scale) == on), next(iter(gathered.scales)))


def cautions(chosen: Chosen, on: str) -> list[str]:
    """What a reader has to know before comparing, each a sentence or two."""
    gathered = chosen.gathered
    if not gathered.runs:
        return []
    scale = scale_on(gathered, on)
    shown = gathered.on(scale)
    told = []
    if len(gathered.scales) > 1:
        what = " and ".join(
            plural(len(several), noun)
            for noun, several in (("data set", gathered.datasets), ("metric", {one.metric for one in gathered.scales}))
            if len(several) > 1
        )
        told.append(
            f"These runs are of {what}, between which performance cannot be compared. Figures show "
            f"{scales_of(gathered)[on_of(scale)]}: {count(len(shown.runs))} of {plural(len(gathered.runs), 'run')}. "
            "The table of means has a column for each."
        )
    if "evaluation_zeta" in shown.differing:
        told.append("IsoScore★ was taken at different ζ, between which it cannot be compared. No mean is over several.")
    if others := shown.beside([*chosen.fields, *COORDINATES, *COMPARABLE]):
        named = ", ".join(head(field).lower() for field in others)
        told.append(f"Some points are means over runs that differ in {named} too.")
    return told


def _ids(sweep: Sweep) -> list[str]:
    return [run.id for run in sweep.runs]
