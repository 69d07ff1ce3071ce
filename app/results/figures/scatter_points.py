"""What a scatter of settings shows: means over seeds of any two quantities, as points, table and caption."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Literal, NamedTuple

from app.db.learning import learned_nothing
from app.db.run_rows import AnyRun
from app.figures.figure import Cell, FigureTable
from app.figures.labels import heading
from app.results.captions import describe_pruned, describe_unscored, estimate_cells, format_sizes, list_first
from app.results.figures.legend import TITLES, Colouring, colour_choices
from app.results.figures.trivial import TrivialPredictor
from app.results.labels import ISOTROPY
from app.results.quantities import Quantity, find_quantity, measured_quantities, setting_quantities, setting_value
from app.results.run_table import LAM, PERFORMANCE, TASK, RunTable
from app.results.setting import Setting
from app.results.statistics.estimate import Error, Estimate, by_seed, estimate
from isoscope.core.formatting import count, plural

MAX_LISTED = 5
MAX_PANELS = 8
Scale = Literal["", "linear", "log"]


class ScatterStyle(NamedTuple):
    """The quantities of a scatter, and how they are drawn."""

    seeds: bool = False
    error: Error = Error.CI95
    colour: str = ""
    """What colors stand for: one of ``colour_choices``, or a measured quantity; empty: the usual."""
    x: str = ""
    """One of ``quantities``; empty: isotropy and λ side by side."""
    y: str = PERFORMANCE
    facet: str = ""
    """A setting that gets a panel for each of its values."""
    x_scale: Scale = ""
    y_scale: Scale = ""


USUAL = ScatterStyle()


class ScatterPoint(NamedTuple):
    """The finished runs of a setting that have both coordinates, with their means over seeds by quantity."""

    setting: Setting
    runs: list[AnyRun]
    means: Mapping[str, Estimate | None]
    values: Mapping[str, Cell]

    def fits_log_axis(self, quantity: Quantity) -> bool:
        """Return whether the point has a place on a logarithmic axis: its value is positive, or a word."""
        if quantity.measured:
            mean = self.means[quantity.key]
            return mean is not None and mean.mean > 0
        value = self.values[quantity.key]
        return isinstance(value, str) or (value is not None and value > 0)


class Scatter:
    """The points, the table and the caption of a scatter.

    ``runs`` must have the readings of ``measured`` before points are made.
    """

    def __init__(self, runs: RunTable, metric: str, style: ScatterStyle = USUAL) -> None:
        """Find the quantities of a style. Raises InvalidError of ``x``, ``y``, ``colour`` or ``facet``."""
        self.runs, self.metric, self.style = runs, metric, style
        quantities = measured_quantities(runs, metric)
        self.x = find_quantity(runs, metric, style.x or ISOTROPY, "x", quantities)
        self.y = find_quantity(runs, metric, style.y, "y", quantities)
        self.facet = find_quantity(runs, metric, style.facet, "facet", quantities) if style.facet else None
        self.shade: Quantity | None = None
        """The measured quantity that colors stand for; None if they stand for a setting."""
        if style.colour and style.colour not in TITLES and style.colour not in colour_choices(runs):
            shade = find_quantity(runs, metric, style.colour, "colour", quantities)
            self.shade = shade if shade.measured else None
        self.colouring = Colouring(runs, LAM if self.shade else style.colour)
        self.scales = ((self.x, style.x_scale), (self.y, style.y_scale))
        self.measured_axes = [quantity for quantity in (self.y, self.x) if quantity.measured]
        measured = [*self.measured_axes, *([self.shade] if self.shade else [])]
        if len(measured) < 2:
            measured.append(quantities[ISOTROPY])
        self.measured = list({quantity.key: quantity for quantity in measured}.values())
        """The measured quantities in the table: axes and color, and isotropy if fewer than two are."""

    def _without_value(self, quantity: Quantity) -> list[AnyRun]:
        return [run for run, reading in self.runs.readings(quantity.key).items() if reading.value is None]

    @cached_property
    def points(self) -> list[ScatterPoint]:
        """A point for each setting with a run that has both coordinates."""
        points = []
        excluded = {run for quantity in self.measured_axes for run in self._without_value(quantity)}
        chosen = [quantity for quantity in (self.x, self.y, self.facet) if quantity and not quantity.measured]
        for setting, runs in self.runs.finished_by_setting.items():
            placed = [run for run in runs if run not in excluded]
            values = {quantity.key: setting_value(self.runs, setting, quantity.key, runs[0]) for quantity in chosen}
            if placed and all(values.get(quantity.key, 0) is not None for quantity in (self.x, self.y)):
                points.append(ScatterPoint(setting, placed, self._means(placed), values))
        return points

    def _means(self, runs: Sequence[AnyRun]) -> dict[str, Estimate | None]:
        means: dict[str, Estimate | None] = {}
        for quantity in self.measured:
            readings = self.runs.readings(quantity.key)
            seeds = by_seed((run.seed, value) for run in runs if (value := readings[run].value) is not None)
            means[quantity.key] = estimate([*seeds.values()], self.style.error) if seeds else None
        return means

    @cached_property
    def trivial(self) -> TrivialPredictor:
        """The trivial predictor if performance is drawn; several data sets have none in common."""
        if PERFORMANCE not in (self.x.key, self.y.key):
            return TrivialPredictor(None, "", {})
        trivial = TrivialPredictor.from_runs(self.runs, self.runs.finished)
        return trivial._replace(score=None) if self.facet and self.facet.key == TASK else trivial

    def caption(self) -> str:
        """Return how to read the scatter; empty if nothing is drawn."""
        if not self.points:
            return ""
        words = [quantity.explanation for quantity in (self.x, self.y, self.shade) if quantity and quantity.explanation]
        if not self.runs.searched and any(quantity.key == LAM and not scale for quantity, scale in self.scales):
            words.append("λ values are equally spaced.")
        sizes = [max((mean.n for mean in point.means.values() if mean), default=1) for point in self.points]
        if max(sizes) == 1:
            words.append("Each point is of one seed (n = 1 seed); error bars need two seeds or more.")
        else:
            axes = "on both axes " if len(self.measured_axes) == 2 else ""
            words.append(
                f"Points are means over seeds ({format_sizes(sizes)}); bars {axes}are {self.style.error.description}."
            )
        if self.facet:
            words.append(f"One panel for each {self.facet.name}, all on the same axes.")
            n_values = len({point.values[self.facet.key] for point in self.points} - {None})
            words += [f"The first {MAX_PANELS} of {count(n_values)} are drawn."] if n_values > MAX_PANELS else []
        if len(self.runs.families) > 1:
            words.append("Lines connect settings that differ only in λ.")
        if any(point.setting.baseline for point in self.points):
            words.append("Ring and dotted line: λ = 0.")
        return " ".join(words) + self.trivial.caption(self.runs) + describe_pruned(self.runs, "Read with care")

    def describe_left_out(self) -> str:
        words = describe_unscored(self.runs) if PERFORMANCE in (self.x.key, self.y.key) else ""
        described: set[AnyRun] = set()
        for quantity in self.measured_axes:
            undefined = [run for run in self._without_value(quantity) if run not in described]
            described.update(undefined)
            if undefined and quantity.key != PERFORMANCE:
                runs = [run for alike in self.runs.by_setting(undefined).values() for run in alike]
                labels = [f"{self.runs.label(self.runs.setting(run))} seed {run.seed}" for run in runs]
                reasons = (self.runs.readings(quantity.key)[run].reason for run in runs)
                reason = next(filter(None, reasons), "It was not measured.")
                listed = list_first(labels, MAX_LISTED, ", ")
                words += f" Not drawn, because {heading(quantity.key)} is undefined: {listed}. {reason}"
        for quantity, scale in self.scales:
            below = [point for point in self.points if scale == "log" and not point.fits_log_axis(quantity)]
            if below:
                words += (
                    f" Not drawn, because {heading(quantity.key)} is 0 or below on a logarithmic axis: "
                    f"{plural(len(below), 'point')}."
                )
        return words

    def table(self) -> FigureTable:
        """Return the means with their error bars; with ``seeds`` all finished runs, and why a value is missing."""
        table_fields = setting_quantities(self.runs)
        # These settings are equal in all runs, so no other column shows them.
        extra = [
            quantity.key
            for quantity in (self.x, self.y, self.facet)
            if quantity and not quantity.measured and quantity.key not in table_fields
        ]
        keys = [quantity.key for quantity in self.measured]
        if self.style.seeds:
            judged = ["trivial_performance", "learned_nothing"] if self.trivial.heads else []
            heads = ["seed", *(f"{key}{suffix}" for key in keys for suffix in ("", "_reason")), *judged]
            return FigureTable(
                [*self.runs.heads, *extra, *heads],
                [
                    [
                        *self.runs.cells(setting),
                        *(setting_value(self.runs, setting, key, run) for key in extra),
                        run.seed,
                        *(cell for key in keys for cell in self.runs.readings(key)[run]),
                        *([self.trivial.score, learned_nothing(run)] if judged else []),
                    ]
                    for setting, runs in self.runs.finished_by_setting.items()
                    for run in runs
                ],
            )
        heads = [f"{key}_{suffix}" for key in keys for suffix in ("seeds", "mean", self.style.error.column)]
        return FigureTable(
            [*self.runs.heads, *extra, *heads, *self.trivial.heads],
            [
                [
                    *self.runs.cells(point.setting),
                    *(point.values[key] for key in extra),
                    *(
                        cell
                        for mean in map(point.means.get, keys)
                        for cell in (mean.n if mean else 0, *estimate_cells(mean))
                    ),
                    *self.trivial.cells(point.setting),
                ]
                for point in self.points
            ],
        )


class ScatterForm(NamedTuple):
    """Choices of the form of a scatter, by their names in the address."""

    measured: dict[str, str]
    settings: dict[str, str]
    colours: dict[str, str]
    """Settings that colors can stand for, besides measured quantities."""
    colour: str
    folded: bool
    """Whether rare choices are as they are by default."""


def scatter_form(runs: RunTable, metric: str, style: ScatterStyle, more_fields: Iterable[str] = ()) -> ScatterForm:
    """Return what can be chosen. ``more_fields`` are settings that runs differ in, besides those of the table."""
    measured = measured_quantities(runs, metric)
    return ScatterForm(
        {key: "performance" if key == PERFORMANCE else quantity.name for key, quantity in measured.items()},
        {key: quantity.name for key, quantity in setting_quantities(runs, more_fields).items()},
        dict(colour_choices(runs)),
        style.colour if style.colour in measured else Colouring(runs, style.colour).key,
        (style.facet, style.x_scale, style.y_scale) == ("", "", ""),
    )
