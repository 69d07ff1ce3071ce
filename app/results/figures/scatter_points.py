"""Data of a scatter of settings: means over seeds of any two quantities, as points, table and caption.

Axes and colors show measured quantities, or fields of the settings; panels show fields.
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
    METRIC_AXES,
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
    cell_text,
    setting_of,
)
from app.results.search.conditions import ALIASES
from app.results.statistics.estimate import ErrorBar, Estimate, estimate_over_seeds
from isoscope.core.errors import InvalidError
from isoscope.core.formatting import count, plural
from isoscope.core.task import METRICS
from isotropy.catalog import MEASURES

MAX_LISTED = 5
MAX_PANELS = 8
Scale = Literal["", "linear", "log"]
GREEK_LETTERS = {LAM: "λ", ZETA: "ζ"}
LAMBDA_AXIS_TITLE = "λ (below 0 less isotropy, above 0 more)"
# Titles of panels show the values of these fields without the name of the field.
SELF_EXPLANATORY_FIELDS = (REGULARIZER, MODEL, TASK, EXPERIMENT)
# Measured quantities that the rows of runs have. The values of others are read from stored results.
ROW_QUANTITIES = (PERFORMANCE, ISOTROPY, SECONDS)


class Quantity(NamedTuple):
    """A quantity of runs that can be drawn. ``key`` is its name in URLs, tables and the search of runs."""

    key: str
    name: str
    axis_title: str
    measured: bool = True
    """Whether it is a result of runs; otherwise it is a field of their settings."""
    bounds: tuple[float, float] = (-inf, inf)
    """Smallest and largest possible value. Axes end slightly beyond them."""
    explanation: str = ""
    """A sentence for captions on how it is measured."""


def list_measured_quantities(table: RunTable, metric: str) -> dict[str, Quantity]:
    """Return the measured quantities of runs by key: performance, isotropy, other metrics, measures and time."""
    metrics = {run.config.metric for run in table.runs} if TASK in table.fields else {metric}
    axis_title = METRIC_AXES[metric].title if len(metrics) == 1 else "Performance, by the metric of each data set"
    performance_bounds = (min(METRIC_AXES[name].low for name in (metric, *metrics)), METRIC_AXES[metric].high)
    describe_runs_source = cache(partial(describe_source, table.runs))
    task = table.runs[0].config.task if table.runs else next(iter(METRICS))
    quantities = [
        Quantity(PERFORMANCE, "Performance", axis_title, bounds=performance_bounds),
        Quantity(
            ISOTROPY,
            "isotropy",
            "IsoScore★ (1 is isotropic)",
            bounds=bounds_of(ISOTROPY),
            explanation=f"IsoScore★ is {describe_runs_source('of the validation tokens')}.",
        ),
    ]
    for other_metric in METRICS[task]:
        if other_metric != metric:
            title, low, high = METRIC_AXES[other_metric]
            quantities.append(Quantity(other_metric.value, title, title, bounds=(low, high)))
    for measure in dict.fromkeys((*TRAINING_MEASURES, *SENTENCE_MEASURES)):
        if measure != ISOTROPY:
            title = title_of(measure)
            vectors = "sentence vectors" if measure in SENTENCE_MEASURES or uses_text_vectors(measure) else "tokens"
            source = describe_runs_source(f"of the last layer’s {vectors}")
            explanation = f"{title} is {source}. Range: {MEASURES[slug_of(measure)].range}."
            bounds = bounds_of(measure)
            quantities.append(Quantity(measure, title, f"{title}, last layer", bounds=bounds, explanation=explanation))
    quantities.append(Quantity(SECONDS, "training time", "Time from start to end (s)"))
    return {quantity.key: quantity for quantity in quantities}


def list_field_quantities(table: RunTable, more_fields: Iterable[str] = ()) -> dict[str, Quantity]:
    """Return quantities by key: the fields in which settings differ, and ``more_fields``."""
    # λ always, so that there is something to choose.
    is_offered = {REGULARIZER: len(table.methods) > 1, LAM: True, ZETA: len(table.zetas) > 1}
    keys = [*(key for key, offered in is_offered.items() if offered), *table.fields, *more_fields]
    return {key: _field_quantity(key) for key in dict.fromkeys(keys)}


def find_quantity(
    table: RunTable, metric: str, name: str, parameter: str, measured_quantities: Mapping[str, Quantity]
) -> Quantity:
    """Return the quantity that a URL parameter names, a field for ``facet``. Raise InvalidError if there is none."""
    choices = {} if parameter == "facet" else measured_quantities
    key = name if name in table.fields else ALIASES.get(name.lower(), name)
    if choices and (key == metric or key in choices):
        return choices[PERFORMANCE if key == metric else key]
    if key in (REGULARIZER, LAM, ZETA, TASK, EXPERIMENT, MODEL, *TrainingOptions.model_fields, *table.fields):
        return _field_quantity(key)
    noun = "setting" if parameter == "facet" else "quantity"
    names = {**choices, **list_field_quantities(table)}
    raise InvalidError(f"No {noun} named `{name}`. Choose one of: {', '.join(names)}.", parameter)


def setting_value(table: RunTable, setting: Setting, key: str, run: AnyRun) -> Cell:
    """Return a setting's value of a field, if needed from one of its runs; None if the field has no effect on it."""
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
    """Return the title of the panel for a value of a field, such as "ζ = 0.2" or "batch size 8"."""
    if key in GREEK_LETTERS:
        return f"{GREEK_LETTERS[key]} = {cell_text(value)}"
    return cell_text(value) if key in SELF_EXPLANATORY_FIELDS else f"{field_in_sentence(key)} {cell_text(value)}"


def _field_quantity(key: str) -> Quantity:
    axis_title = LAMBDA_AXIS_TITLE if key == LAM else GREEK_LETTERS.get(key, field_heading(key))
    return Quantity(key, GREEK_LETTERS.get(key, field_in_sentence(key)), axis_title, measured=False)


class ScatterStyle(NamedTuple):
    """The quantities of a scatter, and how they are drawn. ``seeds`` adds single runs."""

    seeds: bool = False
    error: ErrorBar = ErrorBar.CI95
    color: str = ""
    """The quantity that colors show: one of ``color_choices`` or a measured quantity. Empty: the default."""
    x: str = ""
    """The quantity on the x axis. Empty: isotropy; a page shows a scatter by λ beside it."""
    y: str = PERFORMANCE
    facet: str = ""
    """A field of settings that gets a panel for each of its values. Empty: a single panel."""
    x_scale: Scale = ""
    """Empty: equal steps for λ unless a λ search chose it, and linear for other numbers."""
    y_scale: Scale = ""


DEFAULT_STYLE = ScatterStyle()


class ScatterPoint(NamedTuple):
    """A setting, its finished runs that have values on both axes, and means over their seeds."""

    setting: Setting
    runs: list[AnyRun]
    means: Mapping[str, Estimate | None]
    """Means by measured quantity; None if none of the runs has a value."""
    values: Mapping[str, Cell]
    """Values of the setting by field, for the fields on axes and panels."""

    def fits_log_axis(self, quantity: Quantity) -> bool:
        """Return whether a logarithmic axis can show the point: its value is positive, or text."""
        if quantity.measured:
            mean = self.means[quantity.key]
            return mean is not None and mean.mean > 0
        value = self.values[quantity.key]
        return isinstance(value, str) or (value is not None and value > 0)


class ScatterPlan:
    """The points, table and caption of a scatter. They need readings of ``measured_quantities`` in ``run_table``."""

    def __init__(
        self, run_table: RunTable, metric: str, style: ScatterStyle = DEFAULT_STYLE, collapsed: Collection[Setting] = ()
    ) -> None:
        """Find the quantities of a style. Raise InvalidError for its ``x``, ``y``, ``color`` or ``facet``."""
        self.run_table, self.style, self.collapsed = run_table, style, collapsed
        quantities = list_measured_quantities(run_table, metric)
        self.x = find_quantity(run_table, metric, style.x or ISOTROPY, "x", quantities)
        self.y = find_quantity(run_table, metric, style.y, "y", quantities)
        self.facet = find_quantity(run_table, metric, style.facet, "facet", quantities) if style.facet else None
        self.color_quantity: Quantity | None = None
        """The measured quantity that colors show; None if they show a field of settings."""
        if style.color and style.color not in TITLES and style.color not in color_choices(run_table):
            quantity = find_quantity(run_table, metric, style.color, "color", quantities)
            self.color_quantity = quantity if quantity.measured else None
        self.coloring = Coloring(run_table, "" if self.color_quantity else style.color)
        self.scales = ((self.x, style.x_scale), (self.y, style.y_scale))
        self.measured_axes = [quantity for quantity in (self.y, self.x) if quantity.measured]
        measured_quantities = [*self.measured_axes, *([self.color_quantity] if self.color_quantity else [])]
        if len(measured_quantities) < 2:
            measured_quantities.append(quantities[ISOTROPY])
        self.measured_quantities = list({quantity.key: quantity for quantity in measured_quantities}.values())
        """The measured quantities in the table: those of axes and colors, and isotropy if these are fewer than two."""

    def _list_unmeasured_runs(self, quantity: Quantity) -> list[AnyRun]:
        return [run for run, reading in self.run_table.readings(quantity.key).items() if reading.value is None]

    @cached_property
    def points(self) -> list[ScatterPoint]:
        """Return a point for each setting with a run that has both coordinates."""
        points = []
        excluded_runs = {run for quantity in self.measured_axes for run in self._list_unmeasured_runs(quantity)}
        fields = [quantity for quantity in (self.x, self.y, self.facet) if quantity and not quantity.measured]
        for setting, runs in self.run_table.finished_by_setting.items():
            measured_runs = [run for run in runs if run not in excluded_runs]
            values = {field.key: setting_value(self.run_table, setting, field.key, runs[0]) for field in fields}
            has_coordinates = all(values[field.key] is not None for field in fields if field is not self.facet)
            if measured_runs and has_coordinates:
                points.append(ScatterPoint(setting, measured_runs, self._means(measured_runs), values))
        return points

    def _means(self, runs: Sequence[AnyRun]) -> dict[str, Estimate | None]:
        means = {}
        for quantity in self.measured_quantities:
            readings = self.run_table.readings(quantity.key)
            seeds_and_values = ((run.seed, readings[run].value) for run in runs)
            means[quantity.key] = estimate_over_seeds(seeds_and_values, self.style.error)
        return means

    @cached_property
    def trivial_predictor(self) -> TrivialPredictor:
        """Return the trivial predictor: empty unless an axis shows performance; no score if panels are data sets."""
        if PERFORMANCE not in (self.x.key, self.y.key):
            return TrivialPredictor(None, "", {})
        trivial = TrivialPredictor.from_runs(self.run_table, self.run_table.finished_runs)
        return trivial._replace(score=None) if self.facet and self.facet.key == TASK else trivial

    def caption(self) -> str:
        """Say how to read the scatter, which must have points."""
        explained_quantities = (self.x, self.y, *([self.color_quantity] if self.color_quantity else []))
        sentences = [quantity.explanation for quantity in explained_quantities if quantity.explanation]
        if not self.run_table.is_searched and any(quantity.key == LAM and not scale for quantity, scale in self.scales):
            sentences.append("λ values are equally spaced.")
        seed_counts = [max((mean.n for mean in point.means.values() if mean), default=1) for point in self.points]
        if max(seed_counts) == 1:
            sentences.append("Each point is one seed (n = 1 seed); error bars need two seeds or more.")
        else:
            scope = "on both axes " if len(self.measured_axes) == 2 else ""
            has_cut_bar = any(
                mean.ends[0] < quantity.bounds[0] or mean.ends[1] > quantity.bounds[1]
                for point in self.points
                for quantity in self.measured_axes
                if (mean := point.means[quantity.key])
            )
            cut_note = ", cut at the ends of the scale" if has_cut_bar else ""
            sizes, description = format_sizes(seed_counts), self.style.error.description
            sentences.append(f"Points are means over seeds ({sizes}); bars {scope}are {description}{cut_note}.")
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
        """Say, after a space, which runs and points are not drawn, and why; empty if all are."""
        text = describe_unscored(self.run_table) if PERFORMANCE in (self.x.key, self.y.key) else ""
        described_runs: set[AnyRun] = set()
        for quantity in self.measured_axes:
            new_runs = [run for run in self._list_unmeasured_runs(quantity) if run not in described_runs]
            described_runs.update(new_runs)
            if new_runs and quantity.key != PERFORMANCE:
                runs = [run for setting_runs in self.run_table.by_setting(new_runs).values() for run in setting_runs]
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
        """Return a row of means for each point or, if the style shows runs, a row of values for each finished run."""
        fields_with_column = list_field_quantities(self.run_table)
        # These fields are equal in all runs, so no other column shows them.
        extra_fields = [
            quantity.key
            for quantity in (self.x, self.y, self.facet)
            if quantity and not quantity.measured and quantity.key not in fields_with_column
        ]
        keys = [quantity.key for quantity in self.measured_quantities]
        if self.style.seeds:
            trivial_heads = ["trivial_performance", "learned_nothing"] if self.trivial_predictor.heads else []
            heads = ["seed", *(f"{key}{suffix}" for key in keys for suffix in ("", "_reason")), *trivial_heads]
            return FigureTable(
                [*self.run_table.heads, *extra_fields, *heads],
                [
                    [
                        *self.run_table.cells(setting),
                        *[setting_value(self.run_table, setting, field, run) for field in extra_fields],
                        run.seed,
                        *[cell for key in keys for cell in self.run_table.readings(key)[run]],
                        *([self.trivial_predictor.score, no_learning_note(run)] if trivial_heads else []),
                    ]
                    for setting, runs in self.run_table.finished_by_setting.items()
                    for run in runs
                ],
            )
        heads = [f"{key}_{suffix}" for key in keys for suffix in ("seeds", "mean", self.style.error.column)]
        return FigureTable(
            [*self.run_table.heads, *extra_fields, *heads, *self.trivial_predictor.heads],
            [
                [
                    *self.run_table.cells(point.setting),
                    *(point.values[field] for field in extra_fields),
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
    """Choices in the form of a scatter: labels by their values in the URL."""

    measured: dict[str, str]
    settings: dict[str, str]
    """Fields of settings for axes and panels."""
    colors: dict[str, str]
    """Fields of settings that colors can stand for, in addition to measured quantities."""
    color: str
    """The selected color, a key of ``colors`` or ``measured``."""
    folded: bool
    """Whether the rarely used fields have their defaults, so that the form folds them."""


def make_scatter_form(
    table: RunTable, metric: str, style: ScatterStyle, more_fields: Iterable[str] = ()
) -> ScatterForm:
    """Return the choices of the scatter's form. ``more_fields`` are offered besides those that the table groups by."""
    measured = list_measured_quantities(table, metric)
    return ScatterForm(
        {key: "performance" if key == PERFORMANCE else quantity.name for key, quantity in measured.items()},
        {key: quantity.name for key, quantity in list_field_quantities(table, more_fields).items()},
        dict(color_choices(table)),
        style.color if style.color in measured else Coloring(table, style.color).key,
        (style.facet, style.x_scale, style.y_scale) == ("", "", ""),
    )
