"""The figures of an experiment by their slugs, each with what it alone reads."""

from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple
from urllib.parse import urlencode

from app.context import Context
from app.db.models import Experiment
from app.db.stated import Stated
from app.db.study import Trial, trials_of
from app.db.task import TaskKind
from app.errors import NotFoundError
from app.figures.bars import method_bars
from app.figures.clusters import SILHOUETTE, isotropy_silhouette
from app.figures.depth import by_depth
from app.figures.differences import differences
from app.figures.figure import Figure, undefined
from app.figures.logged import PENALTY, TASK_LOSS, Quantity, Way, logged, part_shown
from app.figures.parallel import parallel
from app.figures.probe import setting_probe
from app.figures.profiles import profiles
from app.figures.scatter import USUAL, Look, isotropy_performance, lambda_performance
from app.figures.search import history, pareto, plane
from app.figures.training import late_anisotropy, while_training
from app.results.layer_measures import SHARES, WATCHED
from app.results.statistics.estimate import Error
from app.results.sweep import Sweep
from app.services.conclusions import read_conclusion
from app.services.run_data import ACTIVATION, Logged, Of, list_by_layer, list_logged, list_looks, list_run_figures

View = Literal["both", "isotropy", "lambda"]


class SweepQuery(NamedTuple):
    """What the URL says of the figures of a sweep."""

    view: View = "both"
    """Which of the two scatters."""
    look: Look = USUAL
    measure: str = WATCHED[0]
    """The one that is watched while runs train."""
    setting: int = 0
    """Whose layers are shown over steps: its place among the settings of the sweep."""
    log: bool = False
    smooth: int = 1
    """Logged values that one drawn value is the mean of."""

    @property
    def scatters(self) -> list[str]:
        """The slugs of the scatters that are shown."""
        return ["isotropy", "lambda"] if self.view == "both" else [self.view]

    @property
    def given(self) -> dict[str, str]:
        """What differs from the usual, by its name in the URL."""
        said = {
            "view": "" if self.view == "both" else self.view,
            "seeds": "1" if self.look.seeds else "",
            "error": "" if self.look.error is Error.CI95 else self.look.error.value,
            "colour": self.look.colour,
            "measure": "" if self.measure == WATCHED[0] else self.measure,
            "setting": str(self.setting or ""),
            "log": "1" if self.log else "",
            "smooth": str(self.smooth) if self.smooth > 1 else "",
        }
        return {name: value for name, value in said.items() if value}

    def encoded(self, **changed: str) -> str:
        """The query string again, or one that differs; what is not said otherwise is left out."""
        return urlencode({name: value for name, value in (self.given | changed).items() if value})


class Asked(NamedTuple):
    """A sweep, and how a figure of it is wanted."""

    context: Context
    experiment: Experiment
    """That of the runs, or of the first of them."""
    sweep: Sweep
    query: SweepQuery
    of: Of
    """Whose steps and layers are read: the experiment by its id, or runs of several by theirs."""

    @property
    def trials(self) -> list[Trial]:
        """Its runs as the trials of a search."""
        return trials_of(self.experiment.runs)

    @property
    def metric(self) -> str:
        """What performance is measured by."""
        return str(self.experiment.config["metric"])


def _logged(asked: Asked, quantity: Quantity) -> Figure:
    found = list_logged(asked.context, asked.of, quantity.column)
    way = Way(asked.query.look.seeds, asked.query.log, asked.query.smooth)
    return logged(asked.sweep, quantity, found.by_run, _sample(found, "logged values"), way)


def _watched(asked: Asked) -> Figure:
    found = list_looks(asked.context, asked.of, [asked.query.measure])
    return while_training(asked.sweep, found.by_run, asked.query.measure, _sample(found, "looks"))


def _layers(asked: Asked) -> Figure:
    found = list_looks(asked.context, asked.of, [asked.query.measure])
    settings = asked.sweep.settings
    if not settings:
        return undefined("layers", "Layers over steps", "There is no run yet. Its layers appear here when it trains.")
    setting = settings[min(asked.query.setting, len(settings) - 1)]
    return setting_probe(asked.sweep, setting, found.by_run, asked.query.measure, _sample(found, "looks"))


def _late_anisotropy(asked: Asked) -> Figure:
    found = list_looks(asked.context, asked.of, SHARES)
    return late_anisotropy(asked.sweep, found.by_run, _sample(found, "looks"))


def _sample(found: Logged[Any], what: str) -> str:
    return part_shown(found.shown, found.total, found.apart, what)


FIGURES: dict[str, Callable[[Asked], Figure]] = {
    "isotropy": lambda asked: isotropy_performance(asked.sweep, asked.metric, asked.query.look),
    "lambda": lambda asked: lambda_performance(asked.sweep, asked.metric, asked.query.look),
    "differences": lambda asked: differences(
        asked.sweep, read_conclusion(asked.context, asked.sweep).evidence.comparisons, asked.metric
    ),
    "parallel": lambda asked: parallel(asked.sweep, asked.metric),
    "learning": lambda asked: _logged(asked, TASK_LOSS),
    "penalties": lambda asked: _logged(asked, PENALTY),
    "methods": lambda asked: method_bars(asked.sweep, asked.metric),
    SILHOUETTE: lambda asked: isotropy_silhouette(
        asked.sweep, list_by_layer(asked.context, asked.of, SILHOUETTE), asked.query.look
    ),
    "watched": _watched,
    "layers": _layers,
    "late-anisotropy": _late_anisotropy,
    "twonn": lambda asked: by_depth(asked.sweep, list_by_layer(asked.context, asked.of, "twonn"), "twonn"),
    "pareto": lambda asked: pareto(asked.trials, asked.metric),
    "search-history": lambda asked: history(asked.trials, asked.metric),
    "search-plane": lambda asked: plane(asked.trials, asked.metric),
    "activation": lambda asked: profiles(asked.sweep, list_run_figures(asked.context, asked.of, ACTIVATION)),
}


OF_SEARCHES = ("pareto", "search-history", "search-plane")


def read_figure(
    context: Context, experiment: Experiment, slug: str, query: SweepQuery, sweep: Sweep | None = None
) -> Figure:
    """One figure of an experiment; its sweep, where that is at hand, need not be gathered again."""
    if slug not in offered(experiment):
        raise NotFoundError(f"There is no figure {slug!r} of this experiment.")
    return FIGURES[slug](Asked(context, experiment, sweep or Sweep.of(experiment), query, experiment.id))


def all_figures(context: Context, experiment: Experiment, query: SweepQuery) -> Iterator[Figure]:
    """Every figure of an experiment, each read when it is its turn."""
    return (read_figure(context, experiment, slug, query) for slug in offered(experiment))


def offered(experiment: Experiment) -> list[str]:
    """The figures that it can have: without classes there is nothing to tell apart, and without a search no trials."""
    classes = Stated.of(experiment).task is TaskKind.CLASSIFICATION
    left_out = {*(() if classes else (SILHOUETTE,)), *(() if experiment.study else OF_SEARCHES)}
    return [slug for slug in FIGURES if slug not in left_out]
