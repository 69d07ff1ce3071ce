"""The figures of an experiment by their slugs, each with what it alone reads."""

from collections.abc import Callable
from typing import Annotated, NamedTuple
from urllib.parse import urlencode

from fastapi import Depends

from app.context import Context
from app.db.models import Experiment
from app.db.stated import Stated
from app.db.study import Trial, trials_of
from app.db.task import TaskKind
from app.errors import NotFoundError
from app.figures.bars import method_bars
from app.figures.clusters import SILHOUETTE, isotropy_silhouette
from app.figures.depth import by_depth
from app.figures.figure import Figure
from app.figures.layer_measures import SHARES, WATCHED
from app.figures.learning import losses
from app.figures.profiles import profiles
from app.figures.scatter import isotropy_performance, lambda_performance
from app.figures.search import history, pareto, plane
from app.figures.sweep import Sweep
from app.figures.training import late_anisotropy, while_training
from app.services.run_data import ACTIVATION, list_by_layer, list_looks, list_losses, list_run_figures


class SweepQuery(NamedTuple):
    """What the URL says of the figures: whether runs are drawn beside means, and the measure that is watched."""

    seeds: bool
    measure: str

    def encoded(self, **changed: str) -> str:
        """The query string again, or one that differs; what is not said otherwise is left out."""
        given = {"seeds": "1" if self.seeds else "", "measure": self.measure if self.measure != SHARES[0] else ""}
        return urlencode({key: value for key, value in (given | changed).items() if value})


def _query(seeds: bool = False, measure: str = "") -> SweepQuery:
    return SweepQuery(seeds, measure if measure in WATCHED else SHARES[0])


SweepDep = Annotated[SweepQuery, Depends(_query)]


class Asked(NamedTuple):
    """An experiment, and how a figure of it is wanted."""

    context: Context
    experiment: Experiment
    sweep: Sweep
    query: SweepQuery

    @property
    def trials(self) -> list[Trial]:
        """Its runs as the trials of a search."""
        return trials_of(self.experiment.runs)

    @property
    def metric(self) -> str:
        """What performance is measured by."""
        return str(self.experiment.config["metric"])


FIGURES: dict[str, Callable[[Asked], Figure]] = {
    "isotropy": lambda asked: isotropy_performance(asked.sweep, asked.metric, seeds=asked.query.seeds),
    "lambda": lambda asked: lambda_performance(asked.sweep, asked.metric, seeds=asked.query.seeds),
    "learning": lambda asked: losses(asked.sweep, list_losses(asked.context, asked.experiment.id)),
    "methods": lambda asked: method_bars(asked.sweep, asked.metric),
    SILHOUETTE: lambda asked: isotropy_silhouette(
        asked.sweep, list_by_layer(asked.context, asked.experiment.id, SILHOUETTE)
    ),
    "watched": lambda asked: while_training(
        asked.sweep, list_looks(asked.context, asked.experiment.id, [asked.query.measure]), asked.query.measure
    ),
    "late-anisotropy": lambda asked: late_anisotropy(
        asked.sweep, list_looks(asked.context, asked.experiment.id, SHARES)
    ),
    "twonn": lambda asked: by_depth(asked.sweep, list_by_layer(asked.context, asked.experiment.id, "twonn"), "twonn"),
    "pareto": lambda asked: pareto(asked.trials, asked.metric),
    "search-history": lambda asked: history(asked.trials, asked.metric),
    "search-plane": lambda asked: plane(asked.trials, asked.metric),
    "activation": lambda asked: profiles(asked.sweep, list_run_figures(asked.context, asked.experiment.id, ACTIVATION)),
}


OF_SEARCHES = ("pareto", "search-history", "search-plane")


def read_figure(context: Context, experiment: Experiment, slug: str, query: SweepQuery) -> Figure:
    """One figure of an experiment."""
    if slug not in offered(experiment):
        raise NotFoundError(f"There is no figure {slug!r} of this experiment.")
    return FIGURES[slug](Asked(context, experiment, Sweep.of(experiment), query))


def offered(experiment: Experiment) -> list[str]:
    """The figures that it can have: without classes there is nothing to tell apart, and without a search no trials."""
    classes = Stated.of(experiment).task is TaskKind.CLASSIFICATION
    left_out = {*(() if classes else (SILHOUETTE,)), *(() if experiment.study else OF_SEARCHES)}
    return [slug for slug in FIGURES if slug not in left_out]
