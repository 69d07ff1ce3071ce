"""What a scatter of settings shows: means over seeds of any two quantities, as points, numbers and words."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

from app.db.learning import learned_nothing
from app.db.run_rows import AnyRun
from app.figures.figure import Cell, Table
from app.figures.labels import heading
from app.results.figures.legend import TITLES, Colouring, choices
from app.results.labels import ISOTROPY
from app.results.points import Trivial, cells, given_up, how_many, unscored
from app.results.quantities import (
    PERFORMANCE,
    Quantity,
    Readings,
    find_quantity,
    measured_quantities,
    set_quantities,
    setting_value,
)
from app.results.run_set import LAM, TASK
from app.results.statistics.estimate import Error, Estimate, by_seed, estimate
from app.results.sweep import Setting, Sweep
from isoscope.core.formatting import count, plural

MAX_NAMED = 5
MOST_PANELS = 8
Scale = Literal["", "linear", "log"]


class ScatterStyle(NamedTuple):
    """How the scatters of a sweep are wanted."""

    seeds: bool = False
    """The runs behind the means, too."""
    error: Error = Error.CI95
    colour: str = ""
    """What colors stand for: one of ``colouring.choices``, or what is measured; else the usual."""
    x: str = ""
    """Of ``quantities``; empty: isotropy and λ side by side."""
    y: str = PERFORMANCE
    facet: str = ""
    """A setting that has a panel for each of its values."""
    x_scale: Scale = ""
    """Empty: linear, but λ at equal steps."""
    y_scale: Scale = ""


USUAL = ScatterStyle()


class ScatterPoint(NamedTuple):
    """The finished runs of one setting that have both coordinates, and their means over seeds by quantity."""

    setting: Setting
    runs: list[AnyRun]
    means: Mapping[str, Estimate | None]
    """Of what is measured."""
    values: Mapping[str, Cell]
    """Of what was set: coordinates and facet."""


@dataclass(frozen=True)
class Scatter:
    """What a scatter draws, tables and says. ``readings`` have what does not stand in the rows of runs."""

    sweep: Sweep
    metric: str
    style: ScatterStyle = USUAL
    readings: Readings | None = None

    @cached_property
    def x(self) -> Quantity:
        """What stands along."""
        return self._find(self.style.x or ISOTROPY, "x")

    @cached_property
    def y(self) -> Quantity:
        """What stands upward."""
        return self._find(self.style.y, "y")

    @cached_property
    def facet(self) -> Quantity | None:
        """The setting that has a panel for each of its values."""
        return self._find(self.style.facet, "facet") if self.style.facet else None

    @cached_property
    def shade(self) -> Quantity | None:
        """What is measured and told by colors; None where these stand for a setting."""
        name = self.style.colour
        if not name or name in TITLES or name in choices(self.sweep):
            return None
        found = self._find(name, "colour")
        return found if found.measured else None

    @property
    def colouring(self) -> Colouring:
        """The colors of settings, which are quiet beside what is measured."""
        return Colouring(self.sweep, LAM if self.shade else self.style.colour)

    @cached_property
    def measured(self) -> list[Quantity]:
        """What it tells that came out of runs; beside a setting isotropy, too."""
        axes = [one for one in (self.y, self.x, self.shade) if one and one.measured]
        more = self._known[ISOTROPY]
        return list({one.key: one for one in ([*axes, more] if len(axes) < 2 else axes)}.values())

    @cached_property
    def points(self) -> list[ScatterPoint]:
        """A point for each setting with a run that has both coordinates."""
        found = []
        missing = {run for one in self._measured_axes for run in self._without(one)}
        for setting, runs in self.sweep.finished_by_setting.items():
            placed = [run for run in runs if run not in missing]
            values = {
                one.key: setting_value(self.sweep, setting, one.key, runs[0])
                for one in (self.x, self.y, self.facet)
                if one and not one.measured
            }
            if placed and all(values.get(one.key, 0) is not None for one in (self.x, self.y)):
                found.append(ScatterPoint(setting, placed, self._means(placed), values))
        return found

    def value(self, quantity: Quantity, run: AnyRun) -> float | None:
        """What a finished run has of something measured."""
        return self._values_of(quantity)[run]

    def _values_of(self, quantity: Quantity) -> Mapping[AnyRun, float | None]:
        if quantity.key not in self._values:
            readings = self.readings or {}
            self._values[quantity.key] = {one: quantity.reading(one, readings).value for one in self.sweep.finished}
        return self._values[quantity.key]

    def _without(self, quantity: Quantity) -> list[AnyRun]:
        """The finished runs that have no value of something measured."""
        return [run for run, value in self._values_of(quantity).items() if value is None]

    @cached_property
    def _values(self) -> dict[str, dict[AnyRun, float | None]]:
        """What was read of finished runs, once of each, as points, ranges and captions ask for it again."""
        return {}

    @cached_property
    def trivial(self) -> Trivial:
        """The trivial predictor, where performance is drawn; of several data sets there is none for all."""
        found = Trivial.from_runs(self.sweep, self.sweep.finished)
        if PERFORMANCE not in (self.x.key, self.y.key):
            return Trivial(None, "", {})
        return found._replace(score=None) if self.facet and self.facet.key == TASK else found

    @property
    def equal_steps(self) -> bool:
        """Whether λ stands on an axis at equal steps."""
        return not self.sweep.searched and any(
            one.key == LAM and not scale for one, scale in ((self.x, self.style.x_scale), (self.y, self.style.y_scale))
        )

    @cached_property
    def _known(self) -> dict[str, Quantity]:
        return measured_quantities(self.sweep, self.metric)

    def _find(self, name: str, field: str) -> Quantity:
        return find_quantity(self.sweep, self.metric, name, field, self._known)

    @cached_property
    def _measured_axes(self) -> list[Quantity]:
        return [one for one in (self.y, self.x) if one.measured]

    def _means(self, runs: Sequence[AnyRun]) -> dict[str, Estimate | None]:
        means: dict[str, Estimate | None] = {}
        for one in self.measured:
            values = self._values_of(one)
            seeds = by_seed((run.seed, value) for run in runs if (value := values[run]) is not None)
            means[one.key] = estimate([*seeds.values()], self.style.error) if seeds else None
        return means

    def caption(self) -> str:
        """How to read it; empty where nothing is drawn."""
        if not self.points:
            return ""
        told = [one.told for one in (self.x, self.y, self.shade) if one and one.told]
        first = " ".join([*told, *(["λ values are equally spaced."] if self.equal_steps else []), ""])
        sizes = [max((one.n for one in point.means.values() if one), default=1) for point in self.points]
        where = "on both axes " if len(self._measured_axes) == 2 else ""
        of = f"Points are means over seeds ({how_many(sizes)}); bars {where}are {self.style.error.description}."
        if max(sizes) == 1:
            of = "Each point is of one seed (n = 1 seed); error bars need two seeds or more."
        lines = " Lines connect settings that differ only in λ." if len(self.sweep.families) > 1 else ""
        ring = " Ring and dotted line: λ = 0." if any(point.setting.baseline for point in self.points) else ""
        return (
            f"{first}{of}{self._panels_told()}{lines}{ring}{self.trivial.caption(self.sweep)}"
            f"{given_up(self.sweep, 'Read with care')}"
        )

    def _panels_told(self) -> str:
        if not self.facet:
            return ""
        values = {point.values[self.facet.key] for point in self.points} - {None}
        more = f" The first {MOST_PANELS} of {count(len(values))} are drawn." if len(values) > MOST_PANELS else ""
        return f" One panel for each {self.facet.name}, all on the same axes.{more}"

    def left_out(self) -> str:
        """Which finished runs have no place, and the reason of the first."""
        told = unscored(self.sweep) if PERFORMANCE in (self.x.key, self.y.key) else ""
        told_of: set[AnyRun] = set()
        for one in self._measured_axes:
            without = [run for run in self._without(one) if run not in told_of]
            told += self._undefined(one, without) if without and one.key != PERFORMANCE else ""
            told_of.update(without)
        return told + self._unplaced()

    def _undefined(self, quantity: Quantity, missing: Collection[AnyRun]) -> str:
        without = [run for runs in self.sweep.by_setting(missing).values() for run in runs]
        named = ", ".join(f"{self.sweep.label(self.sweep.setting(run))} seed {run.seed}" for run in without[:MAX_NAMED])
        more = f" and {count(len(without) - MAX_NAMED)} more" if len(without) > MAX_NAMED else ""
        reasons = [quantity.reading(run, self.readings or {}).reason for run in without]
        reason = next((one for one in reasons if one), "It was not measured.")
        return f" Not drawn, because {heading(quantity.key)} is undefined: {named}{more}. {reason}"

    def _unplaced(self) -> str:
        """What a logarithm leaves out."""
        told = ""
        for one, scale in ((self.x, self.style.x_scale), (self.y, self.style.y_scale)):
            below = [point for point in self.points if scale == "log" and not is_positive(point, one)]
            if below:
                told += (
                    f" Not drawn, because {heading(one.key)} is 0 or below on a logarithmic axis: "
                    f"{plural(len(below), 'point')}."
                )
        return told

    def table(self) -> Table:
        """The means with their error bars, or with ``seeds`` all finished runs, and why a value is missing."""
        sweep, trivial = self.sweep, self.trivial
        extra = [one for one in (self.x, self.y, self.facet) if one and self._is_extra(one)]
        heads = [*sweep.columns, *(one.key for one in extra)]
        if self.style.seeds:
            judged = ["trivial_performance", "learned_nothing"] if trivial.columns else []
            return Table(
                [*heads, "seed", *(f"{one.key}{what}" for one in self.measured for what in ("", "_reason")), *judged],
                [
                    [
                        *sweep.cells(setting),
                        *(setting_value(sweep, setting, one.key, run) for one in extra),
                        run.seed,
                        *(cell for one in self.measured for cell in one.reading(run, self.readings or {})),
                        *([trivial.score, learned_nothing(run)] if judged else []),
                    ]
                    for setting, runs in sweep.finished_by_setting.items()
                    for run in runs
                ],
            )
        told = [f"{one.key}_{what}" for one in self.measured for what in ("seeds", "mean", self.style.error.column)]
        return Table(
            [*heads, *told, *trivial.columns],
            [
                [
                    *sweep.cells(point.setting),
                    *(point.values[one.key] for one in extra),
                    *(cell for one in self.measured for cell in _counted(point.means[one.key])),
                    *trivial.cells(point.setting),
                ]
                for point in self.points
            ],
        )

    def _is_extra(self, quantity: Quantity) -> bool:
        """Whether it is a setting that tables of this sweep have no column for, because all runs are alike in it."""
        return not quantity.measured and quantity.key not in {*set_quantities(self.sweep)}


def is_positive(point: ScatterPoint, quantity: Quantity) -> bool:
    """Whether a point has a place on a logarithmic axis; what is told in words has one on any axis."""
    if quantity.measured:
        mean = point.means[quantity.key]
        return mean is not None and mean.mean > 0
    value = point.values[quantity.key]
    return isinstance(value, str) or (value is not None and value > 0)


def _counted(found: Estimate | None) -> list[float | None]:
    return [found.n if found else 0, *cells(found)]


class ScatterForm(NamedTuple):
    """What the form of a scatter offers, by what the address calls it."""

    measured: dict[str, str]
    settings: dict[str, str]
    colours: dict[str, str]
    """Settings that colors can stand for, besides what is measured."""
    colour: str
    """What they stand for now."""
    folded: bool
    """Whether what the usual scatters do not need is left as it is."""


def scatter_form(sweep: Sweep, metric: str, style: ScatterStyle, further: Iterable[str] = ()) -> ScatterForm:
    """Return what can be chosen. ``further`` are settings that runs differ in, besides those of the sweep."""
    measured = measured_quantities(sweep, metric)
    colours = dict(choices(sweep))
    return ScatterForm(
        {one.key: "performance" if one.key == PERFORMANCE else one.name for one in measured.values()},
        {one.key: one.name for one in set_quantities(sweep, further).values()},
        colours,
        style.colour if style.colour in measured else Colouring(sweep, style.colour).key,
        (style.facet, style.x_scale, style.y_scale) == ("", "", ""),
    )
