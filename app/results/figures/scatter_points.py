"""Data of a scatter of settings: means over seeds of any two quantities, as points, table and caption.

Axes, colors and panels show measured quantities, or settings in which runs differ.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache, cached_property, partial
from math import inf
from typing import Literal, NamedTuple

from app.db.config import TrainingOptions
from app.db.learning import no_learning_note
from app.db.options.regularization import REGULARIZER_NAMES
from app.db.run_rows import AnyRun
from app.figures.figure import Cell, FigureTable
from app.figures.labels import field_heading, field_in_sentence, heading
from app.results.captions import (
    describe_pruned,
    describe_source,
    describe_unscored,
    estimate_cells,
    format_sizes,
    join_first,
)
from app.results.figures.legend import TITLES, Coloring, color_choices
from app.results.figures.trivial import TrivialPredictor
from app.results.labels import (
    ISOTROPY,
    METRIC_RANGES,
    SENTENCE_MEASURES,
    TRAINING_MEASURES,
    bounds_of,
    slug_of,
    title_of,
    uses_text_vectors,
)
from app.results.run_table import (
    EXPERIMENT,
    LAM,
    MODEL,
    PERFORMANCE,
    REGULARIZER,
    SECONDS,
    TASK,
    ZETA,
    RunTable,
    Setting,
    setting_of,
)
from app.results.search.conditions import ALIASES
from app.results.statistics.estimate import ErrorBar, Estimate, estimate_over_seeds
from isoscope.core.errors import InvalidError
from isoscope.core.formatting import count, plural, short
from isoscope.core.task import METRICS
from isotropy.catalog import MEASURES

MAX_LISTED = 5
MAX_PANELS = 8
Scale = Literal["", "linear", "log"]
SYMBOLS = {LAM: "λ", ZETA: "ζ"}
LAMBDA_AXIS = "λ (below 0 less isotropy, above 0 more)"
# Labels show the values of these without the name of the quantity.
SELF_EXPLANATORY = (REGULARIZER, MODEL, TASK, EXPERIMENT)
ROW_QUANTITIES = (PERFORMANCE, ISOTROPY, SECONDS)


class Quantity(NamedTuple):
    """A quantity of runs that can be drawn. ``key`` is its name in URLs, tables and the search of runs."""

    key: str
    name: str
    axis: str
    """Title of its axis."""
    measured: bool = True
    """Whether it is a result of runs; otherwise it is a setting."""
    bounds: tuple[float, float] = (-inf, inf)
    """Smallest and largest possible value. Axes end slightly beyond them."""
    explanation: str = ""
    """A sentence for captions on how it is measured."""


def list_measured_quantities(table: RunTable, metric: str) -> dict[str, Quantity]:
    """Return the measured quantities of runs: performance, isotropy, other metrics, last-layer measures and time."""
    metrics = {run.config.metric for run in table.runs} if TASK in table.fields else {metric}
    performance_axis = (
        METRIC_RANGES[metric].title if len(metrics) == 1 else "Performance, by the metric of each data set"
    )
    bounds = (min(METRIC_RANGES[name].low for name in (metric, *metrics)), METRIC_RANGES[metric].high)
    source_of = cache(partial(describe_source, table.runs))
    task = table.runs[0].config.task if table.runs else next(iter(METRICS))
    quantities = [
        Quantity(PERFORMANCE, "Performance", performance_axis, bounds=bounds),
        Quantity(
            ISOTROPY,
            "isotropy",
            "IsoScore★ (1 is isotropic)",
            bounds=bounds_of(ISOTROPY),
            explanation=f"IsoScore★ is {source_of('of the validation tokens')}.",
        ),
        *(
            Quantity(
                another_metric.value,
                METRIC_RANGES[another_metric].title,
                METRIC_RANGES[another_metric].title,
                bounds=(METRIC_RANGES[another_metric].low, METRIC_RANGES[another_metric].high),
            )
            for another_metric in METRICS[task]
            if another_metric != metric
        ),
    ]
    for measure in dict.fromkeys((*TRAINING_MEASURES, *SENTENCE_MEASURES)):
        if measure != ISOTROPY:
            title = title_of(measure)
            vectors = "sentence vectors" if measure in SENTENCE_MEASURES or uses_text_vectors(measure) else "tokens"
            source = source_of(f"of the last layer’s {vectors}")
            explanation = f"{title} is {source}. Range: {MEASURES[slug_of(measure)].range}."
            quantities.append(Quantity(measure, title, f"{title}, last layer", True, bounds_of(measure), explanation))
    quantities.append(Quantity(SECONDS, "training time", "Time from start to end (s)"))
    return {quantity.key: quantity for quantity in quantities}


def list_setting_quantities(table: RunTable, more_fields: Iterable[str] = ()) -> dict[str, Quantity]:
    # λ always, so that there is something to choose.
    is_offered = {REGULARIZER: len(table.methods) > 1, LAM: True, ZETA: len(table.zetas) > 1}
    keys = [*(key for key, offered in is_offered.items() if offered), *table.fields, *more_fields]
    return {key: _setting_quantity(key) for key in dict.fromkeys(keys)}


def find_quantity(
    table: RunTable, metric: str, name: str, parameter: str, measured: Mapping[str, Quantity]
) -> Quantity:
    """Find the quantity named in the URL. Raise InvalidError for ``parameter``. Facets are settings only."""
    key = name if name in table.fields else ALIASES.get(name.lower(), name)
    if parameter != "facet" and (key == metric or key in measured):
        return measured[PERFORMANCE if key == metric else key]
    if key in (REGULARIZER, LAM, ZETA, TASK, EXPERIMENT, MODEL, *TrainingOptions.model_fields, *table.fields):
        return _setting_quantity(key)
    choices = {**({} if parameter == "facet" else measured), **list_setting_quantities(table)}
    noun = "setting" if parameter == "facet" else "quantity"
    raise InvalidError(f"No {noun} named `{name}`. Choose one of: {', '.join(choices)}.", parameter)


def setting_value(table: RunTable, setting: Setting, key: str, run: AnyRun) -> Cell:
    """Return a setting's value of field ``key``, read from its run ``run`` if needed; None if it has no effect."""
    if key == REGULARIZER:
        return REGULARIZER_NAMES[setting.regularizer]
    if key in (LAM, ZETA):
        return setting.lam if key == LAM else setting.zeta
    if key in table.fields:
        return setting.values[table.fields.index(key)]
    if key in (TASK, EXPERIMENT):
        return run.experiment.dataset.name if key == TASK else run.experiment.name
    return setting_of(run, [key]).values[0]


def panel_title(key: str, value: Cell) -> str:
    if isinstance(value, str):
        return value if key in SELF_EXPLANATORY else f"{field_in_sentence(key)} {value}"
    return f"{SYMBOLS[key]} = {short(value)}" if key in SYMBOLS else f"{field_in_sentence(key)} {short(value)}"


def _setting_quantity(key: str) -> Quantity:
    axis = LAMBDA_AXIS if key == LAM else SYMBOLS.get(key, field_heading(key))
    return Quantity(key, SYMBOLS.get(key, field_in_sentence(key)), axis, measured=False)


class ScatterStyle(NamedTuple):
    """The quantities of a scatter, and how they are drawn."""

    seeds: bool = False
    error: ErrorBar = ErrorBar.CI95
    color: str = ""
    """The quantity that colors show: one of ``color_choices`` or a measured quantity. Empty: the default."""
    x: str = ""
    """The quantity on the x axis. Empty: isotropy and λ side by side."""
    y: str = PERFORMANCE
    facet: str = ""
    """A setting that gets a panel for each of its values."""
    x_scale: Scale = ""
    y_scale: Scale = ""


DEFAULT_STYLE = ScatterStyle()


class ScatterPoint(NamedTuple):
    """Finished runs of a setting that have values on both axes, with means over seeds by quantity."""

    setting: Setting
    runs: list[AnyRun]
    means: Mapping[str, Estimate | None]
    values: Mapping[str, Cell]
    """Values of the settings on axes and panels, by field."""

    def fits_log_axis(self, quantity: Quantity) -> bool:
        """Return whether a logarithmic axis can show the point: its value is positive, or text."""
        if quantity.measured:
            mean = self.means[quantity.key]
            return mean is not None and mean.mean > 0
        value = self.values[quantity.key]
        return isinstance(value, str) or (value is not None and value > 0)


class ScatterPlan:
    """The points, the table and the caption of a scatter.

    ``run_table`` must have the readings of ``measured`` before points are made.
    """

    def __init__(
        self,
        run_table: RunTable,
        metric: str,
        style: ScatterStyle = DEFAULT_STYLE,
        collapsed: Collection[Setting] = (),
    ) -> None:
        """Find the quantities of a style. Raise InvalidError for ``x``, ``y``, ``color`` or ``facet``."""
        self.run_table, self.metric, self.style, self.collapsed = run_table, metric, style, collapsed
        quantities = list_measured_quantities(run_table, metric)
        self.x = find_quantity(run_table, metric, style.x or ISOTROPY, "x", quantities)
        self.y = find_quantity(run_table, metric, style.y, "y", quantities)
        self.facet = find_quantity(run_table, metric, style.facet, "facet", quantities) if style.facet else None
        self.shade: Quantity | None = None
        """The measured quantity that colors show; None if they show a setting."""
        if style.color and style.color not in TITLES and style.color not in color_choices(run_table):
            shade = find_quantity(run_table, metric, style.color, "color", quantities)
            self.shade = shade if shade.measured else None
        self.coloring = Coloring(run_table, LAM if self.shade else style.color)
        self.scales = ((self.x, style.x_scale), (self.y, style.y_scale))
        self.measured_axes = [quantity for quantity in (self.y, self.x) if quantity.measured]
        measured = [*self.measured_axes, *([self.shade] if self.shade else [])]
        if len(measured) < 2:
            measured.append(quantities[ISOTROPY])
        self.measured = list({quantity.key: quantity for quantity in measured}.values())
        """The measured quantities in the table: axes and color, and isotropy if that leaves fewer than two."""

    def _list_unmeasured_runs(self, quantity: Quantity) -> list[AnyRun]:
        return [run for run, reading in self.run_table.readings(quantity.key).items() if reading.value is None]

    @cached_property
    def points(self) -> list[ScatterPoint]:
        """Return a point for each setting with a run that has both coordinates."""
        points = []
        excluded_runs = {run for quantity in self.measured_axes for run in self._list_unmeasured_runs(quantity)}
        setting_quantities = [
            quantity for quantity in (self.x, self.y, self.facet) if quantity and not quantity.measured
        ]
        for setting, runs in self.run_table.finished_by_setting.items():
            measured_runs = [run for run in runs if run not in excluded_runs]
            values = {
                quantity.key: setting_value(self.run_table, setting, quantity.key, runs[0])
                for quantity in setting_quantities
            }
            has_coordinates = all(
                values[quantity.key] is not None for quantity in setting_quantities if quantity is not self.facet
            )
            if measured_runs and has_coordinates:
                points.append(ScatterPoint(setting, measured_runs, self._means(measured_runs), values))
        return points

    def _means(self, runs: Sequence[AnyRun]) -> dict[str, Estimate | None]:
        readings = {quantity.key: self.run_table.readings(quantity.key) for quantity in self.measured}
        return {
            key: estimate_over_seeds(((run.seed, reading_by_run[run].value) for run in runs), self.style.error)
            for key, reading_by_run in readings.items()
        }

    @cached_property
    def trivial_predictor(self) -> TrivialPredictor:
        """Return the trivial predictor if performance is drawn, without its score if panels show several data sets."""
        if PERFORMANCE not in (self.x.key, self.y.key):
            return TrivialPredictor(None, "", {})
        trivial = TrivialPredictor.from_runs(self.run_table, self.run_table.finished_runs)
        return trivial._replace(score=None) if self.facet and self.facet.key == TASK else trivial

    def caption(self) -> str:
        """Describe how to read the scatter; empty if nothing is drawn."""
        if not self.points:
            return ""
        sentences = [
            quantity.explanation for quantity in (self.x, self.y, self.shade) if quantity and quantity.explanation
        ]
        if not self.run_table.is_searched and any(quantity.key == LAM and not scale for quantity, scale in self.scales):
            sentences.append("λ values are equally spaced.")
        sizes = [max((mean.n for mean in point.means.values() if mean), default=1) for point in self.points]
        if max(sizes) == 1:
            sentences.append("Each point is one seed (n = 1 seed); error bars need two seeds or more.")
        else:
            scope = "on both axes " if len(self.measured_axes) == 2 else ""
            ends = [
                (end, *quantity.bounds)
                for point in self.points
                for quantity in self.measured_axes
                if (mean := point.means[quantity.key])
                for end in mean.ends
            ]
            cut_note = (
                ", cut at the ends of the scale" if any(not low <= end <= high for end, low, high in ends) else ""
            )
            sizes_text, description = format_sizes(sizes), self.style.error.description
            sentences.append(f"Points are means over seeds ({sizes_text}); bars {scope}are {description}{cut_note}.")
        if self.facet:
            sentences.append(f"One panel for each {self.facet.name}, all on the same axes.")
            n_values = len({point.values[self.facet.key] for point in self.points} - {None})
            sentences += [f"The first {MAX_PANELS} of {count(n_values)} are drawn."] if n_values > MAX_PANELS else []
        if len(self.run_table.families) > 1:
            sentences.append("Lines connect settings that differ only in λ.")
        if any(point.setting.is_baseline for point in self.points):
            sentences.append("Ring and dotted line: λ = 0.")
        if any(point.setting in self.collapsed for point in self.points):
            sentences.append("Hollow: collapsed.")
        return (
            " ".join(sentences)
            + self.trivial_predictor.without_crosses(self.collapsed).caption()
            + describe_pruned(self.run_table, "Read with care")
        )

    def describe_left_out(self) -> str:
        text = describe_unscored(self.run_table) if PERFORMANCE in (self.x.key, self.y.key) else ""
        described_runs: set[AnyRun] = set()
        for quantity in self.measured_axes:
            undefined = [run for run in self._list_unmeasured_runs(quantity) if run not in described_runs]
            described_runs.update(undefined)
            if undefined and quantity.key != PERFORMANCE:
                runs = [run for setting_runs in self.run_table.by_setting(undefined).values() for run in setting_runs]
                labels = [f"{self.run_table.label(self.run_table.setting(run))} seed {run.seed}" for run in runs]
                reasons = (self.run_table.readings(quantity.key)[run].reason for run in runs)
                reason = next(filter(None, reasons), "It was not measured.")
                listed_labels = join_first(labels, MAX_LISTED, ", ")
                text += f" Not drawn, because {heading(quantity.key)} is undefined: {listed_labels}. {reason}"
        for quantity, scale in self.scales:
            hidden_points = [point for point in self.points if scale == "log" and not point.fits_log_axis(quantity)]
            if hidden_points:
                text += (
                    f" Not drawn, because {heading(quantity.key)} is 0 or below on a logarithmic axis: "
                    f"{plural(len(hidden_points), 'point')}."
                )
        return text

    def table(self) -> FigureTable:
        """Return means with their error bars; with ``seeds``, all finished runs and why values are missing."""
        table_fields = list_setting_quantities(self.run_table)
        # These settings are equal in all runs, so no other column shows them.
        extra_keys = [
            quantity.key
            for quantity in (self.x, self.y, self.facet)
            if quantity and not quantity.measured and quantity.key not in table_fields
        ]
        keys = [quantity.key for quantity in self.measured]
        if self.style.seeds:
            trivial_heads = ["trivial_performance", "learned_nothing"] if self.trivial_predictor.heads else []
            heads = ["seed", *(f"{key}{suffix}" for key in keys for suffix in ("", "_reason")), *trivial_heads]
            return FigureTable(
                [*self.run_table.heads, *extra_keys, *heads],
                [
                    [
                        *self.run_table.cells(setting),
                        *(setting_value(self.run_table, setting, key, run) for key in extra_keys),
                        run.seed,
                        *(cell for key in keys for cell in self.run_table.readings(key)[run]),
                        *([self.trivial_predictor.score, no_learning_note(run)] if trivial_heads else []),
                    ]
                    for setting, runs in self.run_table.finished_by_setting.items()
                    for run in runs
                ],
            )
        heads = [f"{key}_{suffix}" for key in keys for suffix in ("seeds", "mean", self.style.error.column)]
        return FigureTable(
            [*self.run_table.heads, *extra_keys, *heads, *self.trivial_predictor.heads],
            [
                [
                    *self.run_table.cells(point.setting),
                    *(point.values[key] for key in extra_keys),
                    *(
                        cell
                        for mean in map(point.means.get, keys)
                        for cell in (mean.n if mean else 0, *estimate_cells(mean))
                    ),
                    *self.trivial_predictor.cells(point.setting),
                ]
                for point in self.points
            ],
        )


class ScatterForm(NamedTuple):
    """Choices in the form of a scatter, by their names in the URL."""

    measured: dict[str, str]
    settings: dict[str, str]
    colors: dict[str, str]
    """Settings that colors can stand for, in addition to measured quantities."""
    color: str
    folded: bool
    """Whether the rarely used fields have their defaults, so that the form folds them."""


def make_scatter_form(
    table: RunTable, metric: str, style: ScatterStyle, more_fields: Iterable[str] = ()
) -> ScatterForm:
    """Return the choices of the scatter's form.

    ``more_fields`` are settings in which runs differ, in addition to those that the table groups by.
    """
    measured = list_measured_quantities(table, metric)
    return ScatterForm(
        {key: "performance" if key == PERFORMANCE else quantity.name for key, quantity in measured.items()},
        {key: quantity.name for key, quantity in list_setting_quantities(table, more_fields).items()},
        dict(color_choices(table)),
        style.color if style.color in measured else Coloring(table, style.color).key,
        (style.facet, style.x_scale, style.y_scale) == ("", "", ""),
    )
