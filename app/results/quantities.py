"""What an axis, a color or a facet of a scatter can be: what came out of runs, and the settings that they differ in."""

from collections.abc import Callable, Iterable, Mapping
from math import inf
from typing import NamedTuple

from app.db.config import TrainingOptions
from app.db.options.regularization import NAMES
from app.db.run_rows import AnyRun
from app.figures.figure import Cell
from app.figures.labels import head, inside
from app.results.labels import ISOTROPY, OF_SENTENCES, SCALES, WATCHED, by_scripts, is_of_texts, slug_of, title_of
from app.results.run_set import EXPERIMENT, LAM, MODEL, REGULARIZER, TASK, ZETA, measured_by
from app.results.search.conditions import ALIASES
from app.results.sweep import Setting, Sweep, setting_of
from isoscope.core.errors import InvalidError
from isoscope.core.formatting import short
from isoscope.core.task import METRICS
from isotropy.catalog import MEASURES

LAUNCHED = "{launched}"
"""Stands for what is said of runs that a worker trained."""
PERFORMANCE, SECONDS = "performance", "seconds"
LAMBDA_AXIS = "λ (below 0 less isotropy, above 0 more)"


class Reading(NamedTuple):
    """The value of a run, or why it has none."""

    value: float | None
    reason: str | None = None


Readings = Mapping[str, Mapping[str, Reading]]
"""By quantity and run, what does not stand in the rows of runs."""


class Quantity(NamedTuple):
    """Something that can be drawn of runs; ``key`` is what addresses, tables and the search of runs call it."""

    key: str
    name: str
    """In a title, a menu and a sentence."""
    axis: str
    """Beside an axis."""
    measured: bool = True
    """Whether it came out of runs; else it was set."""
    within: tuple[float, float] = (-inf, inf)
    """What it can be, where axes end a little beyond it."""
    told: str = ""
    """What it is of, for a caption."""
    read: Callable[[AnyRun], Reading] | None = None
    """How it is read off a run's row; None where ``Readings`` have it."""

    def reading(self, run: AnyRun, readings: Readings) -> Reading:
        """What a run has of it."""
        if self.read:
            return self.read(run)
        return readings.get(self.key, {}).get(run.id, Reading(None))


def measured_quantities(sweep: Sweep, metric: str) -> dict[str, Quantity]:
    """What came out of runs: performance first, then isotropy, other metrics, measures of the last layer, and time."""
    known = {measured_by(run).metric for run in sweep.runs} if TASK in sweep.fields else {metric}
    scale = SCALES[metric]
    title = scale.title if len(known) == 1 else "Performance, by the metric of each data set"
    low = min(SCALES[one].low for one in (metric, *known))
    logged = by_scripts(sweep.runs, LAUNCHED)
    found = [
        Quantity(PERFORMANCE, "Performance", title, within=(low, scale.high), read=_performance),
        Quantity(
            ISOTROPY,
            "isotropy",
            "IsoScore★ (1 is isotropic)",
            read=_isotropy,
            told=f"IsoScore★ is {logged.replace(LAUNCHED, 'of the validation tokens')}.",
        ),
        *(
            Quantity(one.value, SCALES[one].title, SCALES[one].title, within=(SCALES[one].low, SCALES[one].high))
            for one in METRICS[sweep.runs[0].config.task if sweep.runs else next(iter(METRICS))]
            if one != metric
        ),
        *(_of_layers(one, logged) for one in dict.fromkeys((*WATCHED, *OF_SENTENCES)) if one != ISOTROPY),
        Quantity(SECONDS, "training time", "Time from start to end (s)", read=lambda run: Reading(run.seconds)),
    ]
    return {one.key: one for one in found}


def set_quantities(sweep: Sweep, further: Iterable[str] = ()) -> dict[str, Quantity]:
    """The settings that runs differ in, ``further`` ones among them, and λ."""
    several = {REGULARIZER: len(sweep.methods) > 1, LAM: True, ZETA: len(sweep.zetas) > 1}
    known = [*(key for key, varies in several.items() if varies), *sweep.fields, *further]
    return {key: _setting(key) for key in dict.fromkeys(known)}


def find_quantity(sweep: Sweep, metric: str, name: str, field: str, measured: Mapping[str, Quantity]) -> Quantity:
    """The quantity that the address names, measured or set. Raises InvalidError of ``field``."""
    key = name if name in sweep.fields else ALIASES.get(name.lower(), name)
    if field != "facet" and (key == metric or key in measured):
        return measured[PERFORMANCE if key == metric else key]
    if key in (REGULARIZER, LAM, ZETA, TASK, EXPERIMENT, MODEL, *TrainingOptions.model_fields, *sweep.fields):
        return _setting(key)
    known = {**({} if field == "facet" else measured), **set_quantities(sweep)}
    what = "setting" if field == "facet" else "quantity"
    raise InvalidError(f"No {what} named `{name}`. Choose one of: {', '.join(known)}.", field)


def setting_value(sweep: Sweep, setting: Setting, key: str, run: AnyRun) -> Cell:
    """What a setting is in one of its fields; ``run`` is one of it. None where that means nothing to it."""
    if key == REGULARIZER:
        return NAMES[setting.regularizer]
    if key in (LAM, ZETA):
        return setting.lam if key == LAM else setting.zeta
    if key in sweep.fields:
        return setting.values[sweep.fields.index(key)]
    if key in (TASK, EXPERIMENT):
        return run.experiment.dataset.name if key == TASK else run.experiment.name
    return setting_of(run, [key]).values[0]


def _performance(run: AnyRun) -> Reading:
    return Reading(run.performance, run.performance_reason)


def _isotropy(run: AnyRun) -> Reading:
    return Reading(run.isoscore_star, run.isoscore_star_reason)


def _of_layers(measure: str, logged: str) -> Quantity:
    name = title_of(measure)
    of = "sentence vectors" if measure in OF_SENTENCES or is_of_texts(measure) else "tokens"
    said = logged.replace(LAUNCHED, f"of the last layer’s {of}")
    told = f"{name} is {said}. Range: {MEASURES[slug_of(measure)].range}."
    return Quantity(measure, name, f"{name}, last layer", told=told)


def _setting(key: str) -> Quantity:
    axis = {LAM: LAMBDA_AXIS, ZETA: "ζ"}.get(key, head(key))
    return Quantity(key, {LAM: "λ", ZETA: "ζ"}.get(key, inside(key)), axis, measured=False)


def value_words(key: str, value: Cell) -> str:
    """A value of a setting with its name, as the title of a facet."""
    if isinstance(value, str):
        return value if key in (REGULARIZER, MODEL, TASK, EXPERIMENT) else f"{inside(key)} {value}"
    return f"{_setting(key).name} {'= ' if key in (LAM, ZETA) else ''}{short(value)}"
