"""The figures of an experiment by their slugs, with the data that each reads."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple
from urllib.parse import urlencode

from fastapi import Depends, Query

from app.context import Context
from app.core.recent_values import RecentValues
from app.db.models import Experiment, RunStatus
from app.figures.figure import Figure, undefined_figure
from app.results.conclusion.conclusion import read_evidence, run_version
from app.results.figures.baseline import baseline_differences, method_bars
from app.results.figures.layer_curves import late_anisotropy, measure_during_training, setting_heat_map
from app.results.figures.parallel import parallel_coordinates
from app.results.figures.profiles import activation_profiles, measure_by_layer
from app.results.figures.scatter import scatter
from app.results.figures.scatter_points import DEFAULT_STYLE, ROW_QUANTITIES, Scale, ScatterPlan, ScatterStyle
from app.results.figures.study import pareto_figure, search_history, search_plane
from app.results.figures.sweep_curves import PENALTY, TASK_LOSS, WINDOWS, CurveStyle, LoggedQuantity, logged_curves
from app.results.labels import ANISOTROPY_MEASURES, ISOTROPY, TRAINING_MEASURES, title_of
from app.results.run_data import (
    Layers,
    LoggedValues,
    RunSource,
    Value,
    list_activations,
    list_by_layer,
    list_layer_measurements,
    list_logged,
    list_metric,
)
from app.results.run_table import LAM, PERFORMANCE, MeasuredValue, RunTable, Setting
from app.results.search.conditions import ALIASES
from app.results.statistics.estimate import ErrorBar
from isoscope.core.errors import NotFoundError
from isoscope.core.task import METRIC_TITLES, TaskKind

SILHOUETTE = "silhouette"
# Headings of the sections below the conclusion.
SECTIONS = {"methods": "By method", "training": "Training", "layers": "Layers", "directions": "Directions"}
# URL parameters that change scatters, and those that change curves.
SCATTER_PARAMETERS = ("seeds", "error", "color", "y", "facet", "x_scale", "y_scale")
CURVE_PARAMETERS = ("seeds", "log", "smooth")
NUMBERS_PER_LAYERS = 16
"""Assumed number of layers, to count the numbers in the cache."""
MAX_CACHED_NUMBERS = 2_000_000
"""Logged numbers in memory, each at most about 100 bytes."""
_logged_cache: RecentValues[LoggedValues[Any]] = RecentValues(MAX_CACHED_NUMBERS)


class SweepQuery(NamedTuple):
    """The parameters of the figures of a sweep, from the URL."""

    style: ScatterStyle = DEFAULT_STYLE
    measure: str = TRAINING_MEASURES[0]
    setting: int | None = None
    """Index of the setting whose layers are drawn over steps; None: the baseline, or the first if there is none."""
    log: bool = False
    smooth: int = 1
    """Number of logged values in each moving average."""
    tab: str = ""
    """Tab of an experiment's page; empty: the first, or none on pages without tabs."""

    @property
    def scatters(self) -> list[str]:
        """Return the slugs of the scatters that show the chosen x; without a choice, of isotropy and λ."""
        if not self.style.x:
            return ["isotropy", "lambda"]
        x = ALIASES.get(self.style.x, self.style.x)
        return [{ISOTROPY: "isotropy", LAM: "lambda"}.get(x, "scatter")]

    @property
    def parameters(self) -> dict[str, str]:
        """Return the URL parameters that differ from the defaults."""
        parameters = {
            "x": self.style.x,
            "y": "" if self.style.y == PERFORMANCE else self.style.y,
            "facet": self.style.facet,
            "x_scale": self.style.x_scale,
            "y_scale": self.style.y_scale,
            "seeds": "1" if self.style.seeds else "",
            "error": "" if self.style.error is ErrorBar.CI95 else self.style.error.value,
            "color": self.style.color,
            "measure": "" if self.measure == TRAINING_MEASURES[0] else self.measure,
            "setting": "" if self.setting is None else str(self.setting),
            "log": "1" if self.log else "",
            "smooth": str(self.smooth) if self.smooth > 1 else "",
            "tab": self.tab,
        }
        return {name: value for name, value in parameters.items() if value}

    def find_layers_setting(self, settings: Sequence[Setting]) -> int:
        """Return the index, among at least one setting, of the one whose layers are drawn."""
        if self.setting is None:
            return next((index for index, setting in enumerate(settings) if setting.is_baseline), 0)
        return min(self.setting, len(settings) - 1)

    def to_query_string(self, **changed: str) -> str:
        """Return the parameters as a query string, some of them ``changed``. Empty ones are omitted."""
        return urlencode({name: value for name, value in (self.parameters | changed).items() if value})


class FigureRequest(NamedTuple):
    """What a figure needs to be drawn: runs, their experiment, and the parameters from the URL."""

    context: Context
    experiment: Experiment
    table: RunTable
    query: SweepQuery
    source: RunSource
    """Runs whose steps and layers are read: an experiment by its id, or runs by theirs."""

    def draw_scatter(self, slug: str, **style: Any) -> Figure:
        plan = ScatterPlan(self.table, self.experiment.config.metric, self.query.style._replace(**style))
        for quantity in plan.measured_quantities:
            if quantity.key not in ROW_QUANTITIES:
                if quantity.key in METRIC_TITLES:
                    values_by_run = list_metric(self.context, self.source, quantity.key)
                else:
                    layers_by_run = list_by_layer(self.context, self.source, quantity.key)
                    values_by_run = {
                        run_id: (layers["values"][-1], layers["reasons"][-1])
                        for run_id, layers in layers_by_run.items()
                    }
                readings = {run_id: MeasuredValue(*value) for run_id, value in values_by_run.items()}
                self.table.add_readings(quantity.key, readings)
        evidence = read_evidence(self.context, self.table)
        collapsed = {collapse.setting for collapse in evidence.collapsed}
        return scatter(self.table, self.experiment.config.metric, plan.style, slug=slug, collapsed=collapsed)

    def draw_curves(self, quantity: LoggedQuantity) -> Figure:
        values = self._read_cached(list_logged, quantity.column, numbers_per_value=1)
        style = CurveStyle(self.query.style.seeds, self.query.log, self.query.smooth)
        return logged_curves(self.table, quantity, values.points_by_run, values.sample_note("logged values"), style)

    def read_layers(self, *measures: str) -> LoggedValues[Layers]:
        """Return measures by layer at every step where layers were measured."""
        return self._read_cached(list_layer_measurements, measures, NUMBERS_PER_LAYERS * len(measures))

    def _read_cached(
        self, read: Callable[[Context, RunSource, Any], LoggedValues[Value]], columns: Hashable, numbers_per_value: int
    ) -> LoggedValues[Value]:
        """Return logged values of these columns. They are cached unless a run has begun and not ended."""
        key = columns, *map(run_version, self.table.runs)
        can_cache = all(
            run.status.final or (run.status is RunStatus.QUEUED and run.worked_seconds is None)
            for run in self.table.runs
        )
        values = _logged_cache.get(key) if can_cache else None
        if values is None:
            values = read(self.context, self.source, columns)
            if can_cache:
                n_points = sum(map(len, values.points_by_run.values()))
                _logged_cache.put(key, values, len(self.table.runs) + numbers_per_value * n_points)
        return values


def _draw_during_training(request: FigureRequest) -> Figure:
    measurements = request.read_layers(request.query.measure)
    return measure_during_training(
        request.table, measurements.points_by_run, request.query.measure, measurements.sample_note("measurements")
    )


def _draw_layers(request: FigureRequest) -> Figure:
    settings = request.table.settings
    if not settings:
        return undefined_figure(
            "layers", "Layers over steps", "There is no run yet. Its layers appear here during training."
        )
    measurements = request.read_layers(request.query.measure)
    setting = settings[request.query.find_layers_setting(settings)]
    sample_note = measurements.sample_note("measurements")
    return setting_heat_map(request.table, setting, measurements.points_by_run, request.query.measure, sample_note)


def _draw_late_anisotropy(request: FigureRequest) -> Figure:
    measurements = request.read_layers(*ANISOTROPY_MEASURES)
    return late_anisotropy(request.table, measurements.points_by_run, measurements.sample_note("measurements"))


class SweepFigure(NamedTuple):
    """A figure of a sweep: its name, its section of pages, its URL parameters, and how to draw it."""

    slug: str
    title: str
    """Title until it is drawn; ``{measure}`` stands for the selected measure of layers."""
    section: str
    """A section of the page: one of ``SECTIONS``, or another name."""
    draw: Callable[[FigureRequest], Figure]
    query_parameters: tuple[str, ...] = ()
    wide: bool = True
    """Whether it takes the full width of the page."""
    needs: Literal["", "classes", "search"] = ""
    """What the figure is drawn from besides runs: classes of a classification, or a λ search; empty: nothing."""

    def heading(self, query: SweepQuery) -> str:
        return self.title.replace("{measure}", title_of(query.measure))

    def encode_parameters(self, query: SweepQuery) -> str:
        return urlencode({name: value for name, value in query.parameters.items() if name in self.query_parameters})


_SWEEP_FIGURES = (
    SweepFigure(
        "isotropy", "Performance by isotropy", "scatters",
        lambda request: request.draw_scatter("isotropy", x=ISOTROPY), SCATTER_PARAMETERS,
    ),
    SweepFigure(
        "lambda", "Performance by λ", "scatters",
        lambda request: request.draw_scatter("lambda", x=LAM), SCATTER_PARAMETERS,
    ),
    SweepFigure(
        "scatter", "Scatter", "scatters", lambda request: request.draw_scatter("scatter"), ("x", *SCATTER_PARAMETERS)
    ),
    SweepFigure(
        "differences", "Difference from λ = 0", "conclusion",
        lambda request: baseline_differences(
            request.table, read_evidence(request.context, request.table).comparisons,
            request.experiment.config.metric,
        ),
    ),
    SweepFigure(
        "parallel", "Runs by setting", "runs",
        lambda request: parallel_coordinates(request.table, request.experiment.config.metric),
    ),
    SweepFigure(
        "learning", "Learning curves", "training", lambda request: request.draw_curves(TASK_LOSS), CURVE_PARAMETERS,
        wide=False,
    ),
    SweepFigure("watched", "{measure} during training", "training", _draw_during_training, ("measure",), wide=False),
    SweepFigure(
        "penalties", "Penalty during training", "training", lambda request: request.draw_curves(PENALTY),
        CURVE_PARAMETERS, wide=False,
    ),
    SweepFigure(
        "methods", "Performance by method", "methods",
        lambda request: method_bars(request.table, request.experiment.config.metric), wide=False,
    ),
    SweepFigure(
        SILHOUETTE, "Silhouette by isotropy", "methods",
        lambda request: request.draw_scatter(SILHOUETTE, x=ISOTROPY, y=SILHOUETTE, facet="", x_scale="", y_scale=""),
        ("seeds", "error", "color"), wide=False, needs="classes",
    ),
    SweepFigure("layers", "{measure} by layer and step", "layers", _draw_layers, ("measure", "setting"), wide=False),
    SweepFigure(
        "activation", "Activation by dimension", "directions",
        lambda request: activation_profiles(
            request.table, list_activations(request.context, request.source)
        ), wide=False,
    ),
    SweepFigure(
        "late-anisotropy", "k-th anisotropy late in training", "directions", _draw_late_anisotropy, wide=False,
    ),
    SweepFigure(
        "twonn", "Intrinsic dimension, TwoNN by layer", "layers",
        lambda request: measure_by_layer(
            request.table, list_by_layer(request.context, request.source, "twonn"), "twonn"
        ), wide=False,
    ),
    SweepFigure(
        "pareto", "Front of isotropy and performance", "search",
        lambda request: pareto_figure(request.experiment), needs="search",
    ),
    SweepFigure(
        "search-history", "History of the search", "search",
        lambda request: search_history(request.experiment), wide=False, needs="search",
    ),
    SweepFigure(
        "search-plane", "λ and ζ by performance", "search",
        lambda request: search_plane(request.experiment), wide=False, needs="search",
    ),
)  # fmt: skip
SCATTERS = frozenset(figure.slug for figure in _SWEEP_FIGURES if figure.section == "scatters")
# Every figure of a sweep by its slug. To add one, add a record: pages, API and exports loop over them.
FIGURES = {figure.slug: figure for figure in _SWEEP_FIGURES}


def read_figure(
    context: Context, experiment: Experiment, slug: str, query: SweepQuery, table: RunTable | None = None
) -> Figure:
    """Return a figure of an experiment. Pass its table of runs if it is already available."""
    if slug not in list_figure_slugs(experiment):
        raise NotFoundError(f"There is no figure {slug!r} of this experiment.")
    request = FigureRequest(context, experiment, table or RunTable.from_experiment(experiment), query, experiment.id)
    return FIGURES[slug].draw(request)


def read_all_figures(context: Context, experiment: Experiment, query: SweepQuery) -> Iterator[Figure]:
    """Yield every figure of an experiment; the scatter of the chosen x only if no other scatter has that x."""
    repeated_slugs = {"scatter"} - {*query.scatters}
    return (
        read_figure(context, experiment, slug, query)
        for slug in list_figure_slugs(experiment)
        if slug not in repeated_slugs
    )


def list_figure_slugs(experiment: Experiment) -> list[str]:
    is_classification = experiment.config.task is TaskKind.CLASSIFICATION
    return list_available_slugs({"classes": is_classification, "search": experiment.study is not None})


def list_available_slugs(conditions: Mapping[str, bool]) -> list[str]:
    """Return the slugs of the figures whose needs are met. ``conditions`` maps each need to whether it is met."""
    return [slug for slug, figure in FIGURES.items() if conditions.get(figure.needs, True)]


def group_by_section(slugs: Iterable[str]) -> dict[str, list[SweepFigure]]:
    """Group the figures with these slugs by section of the page. A section without one has an empty list."""
    sections: dict[str, list[SweepFigure]] = {figure.section: [] for figure in FIGURES.values()}
    for slug in slugs:
        sections[FIGURES[slug].section].append(FIGURES[slug])
    return sections


Name = Annotated[str, Query(max_length=200)]


def _parse_sweep_query(
    x: Name = "",
    y: Name = "",
    facet: Name = "",
    x_scale: Scale = "",
    y_scale: Scale = "",
    seeds: bool = False,
    error: ErrorBar = ErrorBar.CI95,
    color: str = "",
    measure: str = "",
    setting: Annotated[int | None, Query(ge=0, le=100_000)] = None,
    log: bool = False,
    smooth: Annotated[int, Query(ge=0, le=100_000)] = 1,
    tab: str = "",
) -> SweepQuery:
    style = ScatterStyle(seeds, error, color, x, y or PERFORMANCE, facet, x_scale, y_scale)
    valid_measure = measure if measure in TRAINING_MEASURES else TRAINING_MEASURES[0]
    return SweepQuery(style, valid_measure, setting, log, smooth if smooth in WINDOWS else 1, tab)


SweepDep = Annotated[SweepQuery, Depends(_parse_sweep_query)]
