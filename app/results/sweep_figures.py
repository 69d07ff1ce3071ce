"""The figures of an experiment by their slugs, each with what it alone reads."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal, NamedTuple
from urllib.parse import urlencode

from fastapi import Depends, Query

from app.context import Context
from app.db.models import Experiment
from app.db.study import Trial, trials_of
from app.figures.figure import Figure, undefined
from app.results.conclusion.conclusion import read_conclusion
from app.results.figures.baseline import differences, method_bars
from app.results.figures.layer_curves import late_anisotropy, setting_probe, while_training
from app.results.figures.parallel import parallel
from app.results.figures.profiles import by_depth, profiles
from app.results.figures.scatter import scatter
from app.results.figures.scatter_points import USUAL, Scale, Scatter, ScatterStyle
from app.results.figures.study import history, pareto, plane
from app.results.figures.sweep_curves import PENALTY, TASK_LOSS, WINDOWS, Quantity, Way, logged, part_shown
from app.results.labels import ISOTROPY, SHARES, WATCHED, title_of
from app.results.quantities import PERFORMANCE, Reading, Readings
from app.results.run_data import (
    ACTIVATION,
    Logged,
    Of,
    list_by_layer,
    list_logged,
    list_looks,
    list_metric,
    list_run_figures,
)
from app.results.run_set import LAM
from app.results.search.conditions import ALIASES
from app.results.statistics.estimate import Error
from app.results.sweep import Sweep
from isoscope.core.errors import NotFoundError
from isoscope.core.task import METRIC_TITLES, TaskKind

SILHOUETTE = "silhouette"


class SweepQuery(NamedTuple):
    """What the URL says of the figures of a sweep."""

    look: ScatterStyle = USUAL
    measure: str = WATCHED[0]
    """The one that is watched while runs train."""
    setting: int = 0
    """Whose layers are shown over steps: its place among the settings of the sweep."""
    log: bool = False
    smooth: int = 1
    """Logged values that one drawn value is the mean of."""
    tab: str = ""
    """Which part of an experiment's page; empty: the first, or none on pages without parts."""

    @property
    def scatters(self) -> list[str]:
        """The slugs of the scatters that are shown."""
        if not self.look.x:
            return ["isotropy", "lambda"]
        return [{ISOTROPY: "isotropy", LAM: "lambda"}.get(ALIASES.get(self.look.x, self.look.x), "scatter")]

    @property
    def given(self) -> dict[str, str]:
        """What differs from the usual, by its name in the URL."""
        said = {
            "x": self.look.x,
            "y": "" if self.look.y == PERFORMANCE else self.look.y,
            "facet": self.look.facet,
            "x_scale": self.look.x_scale,
            "y_scale": self.look.y_scale,
            "seeds": "1" if self.look.seeds else "",
            "error": "" if self.look.error is Error.CI95 else self.look.error.value,
            "colour": self.look.colour,
            "measure": "" if self.measure == WATCHED[0] else self.measure,
            "setting": str(self.setting or ""),
            "log": "1" if self.log else "",
            "smooth": str(self.smooth) if self.smooth > 1 else "",
            "tab": self.tab,
        }
        return {name: value for name, value in said.items() if value}

    def encoded(self, **changed: str) -> str:
        """The query string again, or one that differs; what is not said otherwise is left out."""
        return urlencode({name: value for name, value in (self.given | changed).items() if value})


class FigureRequest(NamedTuple):
    """A sweep, and how a figure of it is wanted."""

    context: Context
    experiment: Experiment
    """That of the runs, or of the first of them."""
    sweep: Sweep
    query: SweepQuery
    which: Of
    """Whose steps and layers are read: the experiment by its id, or runs of several by theirs."""

    @property
    def trials(self) -> list[Trial]:
        """Its runs as the trials of a search."""
        return trials_of(self.experiment.runs)

    @property
    def metric(self) -> str:
        """What performance is measured by."""
        return self.experiment.config.metric


def _logged(asked: FigureRequest, quantity: Quantity) -> Figure:
    found = list_logged(asked.context, asked.which, quantity.column)
    way = Way(asked.query.look.seeds, asked.query.log, asked.query.smooth)
    return logged(asked.sweep, quantity, found.by_run, _sample(found, "logged values"), way)


def _watched(asked: FigureRequest) -> Figure:
    found = list_looks(asked.context, asked.which, [asked.query.measure])
    return while_training(asked.sweep, found.by_run, asked.query.measure, _sample(found, "looks"))


def _layers(asked: FigureRequest) -> Figure:
    found = list_looks(asked.context, asked.which, [asked.query.measure])
    settings = asked.sweep.settings
    if not settings:
        return undefined("layers", "Layers over steps", "There is no run yet. Its layers appear here during training.")
    setting = settings[min(asked.query.setting, len(settings) - 1)]
    return setting_probe(asked.sweep, setting, found.by_run, asked.query.measure, _sample(found, "looks"))


def _late_anisotropy(asked: FigureRequest) -> Figure:
    found = list_looks(asked.context, asked.which, SHARES)
    return late_anisotropy(asked.sweep, found.by_run, _sample(found, "looks"))


def _scatter(slug: str, asked: FigureRequest, style: ScatterStyle) -> Figure:
    """A scatter, with what it tells that the rows of runs do not have."""
    return scatter(asked.sweep, asked.metric, style, _readings(asked, style), slug=slug)


def _readings(asked: FigureRequest, style: ScatterStyle) -> Readings:
    """What the rows of runs do not have of what a scatter tells."""
    keys = [one.key for one in Scatter(asked.sweep, asked.metric, style).measured if one.read is None]
    return {key: _readings_of(asked, key) for key in keys}


def _readings_of(asked: FigureRequest, key: str) -> dict[str, Reading]:
    if key in METRIC_TITLES:
        found = list_metric(asked.context, asked.which, key)
        return {run_id: Reading(value, reason) for run_id, (value, reason) in found.items()}
    layers = list_by_layer(asked.context, asked.which, key)
    return {run_id: Reading(one["values"][-1], one["reasons"][-1]) for run_id, one in layers.items()}


def _sample(found: Logged[Any], what: str) -> str:
    return part_shown(found.shown, found.total, found.apart, what)


class SweepFigure(NamedTuple):
    """A figure of a sweep: what it is called, where pages show it, what of their addresses it reads, how to draw it."""

    slug: str
    title: str
    """Shown until it is drawn; ``{measure}`` in it is what is watched while runs train."""
    section: str
    """Of the page: one of ``SECTIONS``, or a place of its own."""
    draw: Callable[[FigureRequest], Figure]
    reads: tuple[str, ...] = ()
    """Names in the address that change it."""
    wide: bool = True
    """Whether it takes the width of the page, or stands beside others."""
    unfolded: bool = False
    """Whether its numbers are the point, and are shown where they are few."""
    needs: Literal["", "classes", "search"] = ""
    """What a sweep must have for it to mean anything."""

    def heading(self, query: SweepQuery) -> str:
        """Its title on a page."""
        return self.title.replace("{measure}", title_of(query.measure))

    def asked(self, query: SweepQuery) -> str:
        """The part of the query string that it reads."""
        return urlencode({name: value for name, value in query.given.items() if name in self.reads})


SECTIONS = {"methods": "Methods", "layers": "Layers", "directions": "Directions", "training": "Training"}
"""Of a page, below what its runs say."""
DRAWN_BY = ("seeds", "error", "colour", "y", "facet", "x_scale", "y_scale")
CURVES = ("seeds", "log", "smooth")


def _by_layer(measure: str) -> Callable[[FigureRequest], Figure]:
    return lambda asked: by_depth(asked.sweep, list_by_layer(asked.context, asked.which, measure), measure)


_ALL = (
    SweepFigure(
        "isotropy", "Performance by isotropy", "scatters",
        lambda asked: _scatter("isotropy", asked, asked.query.look._replace(x=ISOTROPY)), DRAWN_BY,
    ),
    SweepFigure(
        "lambda", "Performance by λ", "scatters",
        lambda asked: _scatter("lambda", asked, asked.query.look._replace(x=LAM)), DRAWN_BY,
    ),
    SweepFigure(
        "scatter", "Scatter", "scatters", lambda asked: _scatter("scatter", asked, asked.query.look), ("x", *DRAWN_BY)
    ),
    SweepFigure(
        "differences", "Difference from λ = 0", "conclusion",
        lambda asked: differences(
            asked.sweep, read_conclusion(asked.context, asked.sweep).evidence.comparisons, asked.metric
        ),
    ),
    SweepFigure(
        "parallel", "Runs by all that varies", "runs", lambda asked: parallel(asked.sweep, asked.metric)
    ),
    SweepFigure(
        "learning", "Learning curves", "training", lambda asked: _logged(asked, TASK_LOSS), CURVES
    ),
    SweepFigure(
        "penalties", "Penalty during training", "training", lambda asked: _logged(asked, PENALTY), CURVES
    ),
    SweepFigure(
        "methods", "Performance by method", "methods", lambda asked: method_bars(asked.sweep, asked.metric), wide=False
    ),
    SweepFigure(
        SILHOUETTE, "Silhouette by isotropy", "methods",
        lambda asked: _scatter(
            SILHOUETTE, asked,
            asked.query.look._replace(x=ISOTROPY, y=SILHOUETTE, facet="", x_scale="", y_scale=""),
        ),
        ("seeds", "error", "colour"), wide=False, needs="classes",
    ),
    SweepFigure("watched", "{measure} during training", "training", _watched, ("measure",)),
    SweepFigure("layers", "{measure} by layer and step", "layers", _layers, ("measure", "setting")),
    SweepFigure(
        "activation", "Activation by dimension", "directions",
        lambda asked: profiles(asked.sweep, list_run_figures(asked.context, asked.which, ACTIVATION)), wide=False,
    ),
    SweepFigure(
        "late-anisotropy", "k-th anisotropy late in training", "directions", _late_anisotropy, wide=False,
    ),
    SweepFigure("twonn", "Intrinsic dimension, TwoNN by layer", "layers", _by_layer("twonn")),
    SweepFigure(
        "pareto", "Front of isotropy and performance", "search",
        lambda asked: pareto(asked.trials, asked.metric), needs="search",
    ),
    SweepFigure(
        "search-history", "History of the search", "search",
        lambda asked: history(asked.trials, asked.metric), wide=False, needs="search",
    ),
    SweepFigure(
        "search-plane", "λ and ζ by performance", "search",
        lambda asked: plane(asked.trials, asked.metric), wide=False, needs="search",
    ),
)  # fmt: skip
SCATTERS = frozenset(one.slug for one in _ALL if one.section == "scatters")
FIGURES = {one.slug: one for one in _ALL}
"""Every figure of a sweep by its slug. One more is a record more: pages, API and exports loop over them."""


def read_figure(
    context: Context, experiment: Experiment, slug: str, query: SweepQuery, sweep: Sweep | None = None
) -> Figure:
    """One figure of an experiment; its sweep, where that is at hand, need not be gathered again."""
    if slug not in offered(experiment):
        raise NotFoundError(f"There is no figure {slug!r} of this experiment.")
    return FIGURES[slug].draw(
        FigureRequest(context, experiment, sweep or Sweep.from_experiment(experiment), query, experiment.id)
    )


def all_figures(context: Context, experiment: Experiment, query: SweepQuery) -> Iterator[Figure]:
    """Every figure of an experiment, each read when it is its turn; the free scatter if it is none of the others."""
    twice = {"scatter"} - {*query.scatters}
    return (read_figure(context, experiment, slug, query) for slug in offered(experiment) if slug not in twice)


def offered(experiment: Experiment) -> list[str]:
    """The figures that it can have: without classes there is nothing to tell apart, and without a search no trials."""
    classes = experiment.config.task is TaskKind.CLASSIFICATION
    return with_what_they_need({"classes": classes, "search": experiment.study is not None})


def with_what_they_need(there: Mapping[str, bool]) -> list[str]:
    """The figures that mean anything where this is there."""
    return [slug for slug, one in FIGURES.items() if there.get(one.needs, True)]


def by_section(slugs: Iterable[str]) -> dict[str, list[SweepFigure]]:
    """These figures by the section of the page, every section with its list."""
    found: dict[str, list[SweepFigure]] = {one.section: [] for one in FIGURES.values()}
    for slug in slugs:
        found[FIGURES[slug].section].append(FIGURES[slug])
    return found


Whole = Annotated[int, Query(ge=0, le=100_000)]
Name = Annotated[str, Query(max_length=200)]


VIEWS = {"isotropy": ISOTROPY, "lambda": LAM}
"""What saved addresses call the scatters, by what stands along."""


def _sweep(
    x: Name = "",
    y: Name = "",
    facet: Name = "",
    x_scale: Scale = "",
    y_scale: Scale = "",
    view: Annotated[Literal["", "both", "isotropy", "lambda"], Query(deprecated=True)] = "",
    seeds: bool = False,
    error: Error = Error.CI95,
    colour: str = "",
    measure: str = "",
    setting: Whole = 0,
    log: bool = False,
    smooth: Whole = 1,
    tab: str = "",
) -> SweepQuery:
    look = ScatterStyle(seeds, error, colour, x or VIEWS.get(view, ""), y or PERFORMANCE, facet, x_scale, y_scale)
    watched = measure if measure in WATCHED else WATCHED[0]
    return SweepQuery(look, watched, setting, log, smooth if smooth in WINDOWS else 1, tab)


SweepDep = Annotated[SweepQuery, Depends(_sweep)]
