"""The figures of runs of any experiments by their slugs."""

from collections.abc import Callable, Sequence

from app.context import Context
from app.db.task import TaskKind
from app.errors import InvalidError, NotFoundError
from app.figures.clusters import SILHOUETTE, isotropy_silhouette
from app.figures.depth import by_depth
from app.figures.figure import Figure
from app.figures.gathered import COMPARABLE, COORDINATES, Gathered, head
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


def read_across(context: Context, chosen: Chosen, slug: str, metric: str, look: SweepQuery) -> Figure:
    """One figure of the runs whose performance is measured by that metric; of the most frequent where none is named."""
    gathered = chosen.gathered
    if slug not in offered_of(gathered):
        raise NotFoundError(f"There is no figure {slug!r} of these runs.")
    shown = Gathered([run for run in gathered.runs if run.config["metric"] == metric_of(gathered, metric)])
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


def metric_of(gathered: Gathered, metric: str) -> str:
    """The metric that is asked for, or that of the most runs. Raises InvalidError where no run has it."""
    if metric and metric not in gathered.metrics:
        raise InvalidError(
            f"None of these runs is measured by {metric!r}; they are by {', '.join(gathered.metrics)}.", "metric"
        )
    return metric or next(iter(gathered.metrics))


def cautions(chosen: Chosen, metric: str) -> list[str]:
    """What a reader has to know before comparing, each a sentence or two."""
    gathered = chosen.gathered
    if not gathered.runs:
        return []
    shown = metric_of(gathered, metric)
    told = []
    if len(gathered.metrics) > 1:
        counted = ", ".join(f"{SCALES[name].title} ({plural(n, 'run')})" for name, n in gathered.metrics.items())
        told.append(
            f"Performance is measured by several metrics, which cannot be compared: {counted}. "
            f"Figures show the runs with {SCALES[shown].title}."
        )
    drawn = Gathered([run for run in gathered.runs if run.config["metric"] == shown])
    if len(drawn.datasets) > 1:
        told.append(
            f"These runs are on {count(len(drawn.datasets))} data sets ({_some(list(drawn.datasets.values()))}), "
            "between which performance cannot be compared: compare the points of one data set. No mean is over several."
        )
    if "evaluation_zeta" in drawn.differing:
        told.append("IsoScore★ was taken at different ζ, between which it cannot be compared. No mean is over several.")
    if others := drawn.beside([*chosen.fields, *COORDINATES, *COMPARABLE]):
        named = ", ".join(head(field).lower() for field in others)
        told.append(f"Some points are means over runs that differ in {named} too.")
    return told


def _some(names: Sequence[str]) -> str:
    most = 5
    return ", ".join(names[:most]) + (f" and {count(len(names) - most)} more" if len(names) > most else "")


def _ids(sweep: Sweep) -> list[str]:
    return [run.id for run in sweep.runs]
