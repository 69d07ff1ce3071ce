"""Quantities for axes, colors and panels of scatters: what came out of runs, and the settings that they differ in."""

from collections.abc import Iterable, Mapping
from math import inf
from typing import NamedTuple

from app.db.config import TrainingOptions
from app.db.options.regularization import NAMES
from app.db.run_rows import AnyRun
from app.figures.figure import Cell
from app.figures.labels import head, inside
from app.results.captions import describe_source
from app.results.labels import ISOTROPY, OF_SENTENCES, SCALES, WATCHED, is_of_texts, slug_of, title_of
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
)
from app.results.search.conditions import ALIASES
from app.results.setting import Setting, setting_of
from isoscope.core.errors import InvalidError
from isoscope.core.formatting import short
from isoscope.core.task import METRICS
from isotropy.catalog import MEASURES

SYMBOLS = {LAM: "λ", ZETA: "ζ"}
LAMBDA_AXIS = "λ (below 0 less isotropy, above 0 more)"
# Values of these say by themselves what they are.
SELF_EXPLANATORY = (REGULARIZER, MODEL, TASK, EXPERIMENT)
ROW_QUANTITIES = (PERFORMANCE, ISOTROPY, SECONDS)


class Quantity(NamedTuple):
    """Something that can be drawn of runs; ``key`` is its name in addresses, tables and the search of runs."""

    key: str
    name: str
    axis: str
    measured: bool = True
    """Whether it came out of runs; otherwise it was set."""
    bounds: tuple[float, float] = (-inf, inf)
    """Smallest and largest possible value; axes end a little beyond them."""
    explanation: str = ""
    """What it is measured on, as a sentence of a caption."""


def measured_quantities(table: RunTable, metric: str) -> dict[str, Quantity]:
    """Return what came out of runs: performance, isotropy, other metrics, measures of the last layer, and time."""
    metrics = {run.config.metric for run in table.runs} if TASK in table.fields else {metric}
    title = SCALES[metric].title if len(metrics) == 1 else "Performance, by the metric of each data set"
    bounds = (min(SCALES[name].low for name in (metric, *metrics)), SCALES[metric].high)
    source = describe_source(table.runs, "of the validation tokens")
    task = table.runs[0].config.task if table.runs else next(iter(METRICS))
    quantities = [
        Quantity(PERFORMANCE, "Performance", title, bounds=bounds),
        Quantity(ISOTROPY, "isotropy", "IsoScore★ (1 is isotropic)", explanation=f"IsoScore★ is {source}."),
        *(
            Quantity(name.value, SCALES[name].title, SCALES[name].title, bounds=(SCALES[name].low, SCALES[name].high))
            for name in METRICS[task]
            if name != metric
        ),
    ]
    for measure in dict.fromkeys((*WATCHED, *OF_SENTENCES)):
        if measure != ISOTROPY:
            name = title_of(measure)
            vectors = "sentence vectors" if measure in OF_SENTENCES or is_of_texts(measure) else "tokens"
            layer_source = describe_source(table.runs, f"of the last layer’s {vectors}")
            explanation = f"{name} is {layer_source}. Range: {MEASURES[slug_of(measure)].range}."
            quantities.append(Quantity(measure, name, f"{name}, last layer", explanation=explanation))
    quantities.append(Quantity(SECONDS, "training time", "Time from start to end (s)"))
    return {quantity.key: quantity for quantity in quantities}


def setting_quantities(table: RunTable, more_fields: Iterable[str] = ()) -> dict[str, Quantity]:
    varies = {REGULARIZER: len(table.methods) > 1, LAM: True, ZETA: len(table.zetas) > 1}
    keys = [*(key for key, differs in varies.items() if differs), *table.fields, *more_fields]
    return {key: _setting_quantity(key) for key in dict.fromkeys(keys)}


def find_quantity(
    table: RunTable, metric: str, name: str, parameter: str, measured: Mapping[str, Quantity]
) -> Quantity:
    """Return the quantity that the address names. Raises InvalidError of ``parameter``; facets are settings only."""
    key = name if name in table.fields else ALIASES.get(name.lower(), name)
    if parameter != "facet" and (key == metric or key in measured):
        return measured[PERFORMANCE if key == metric else key]
    if key in (REGULARIZER, LAM, ZETA, TASK, EXPERIMENT, MODEL, *TrainingOptions.model_fields, *table.fields):
        return _setting_quantity(key)
    choices = {**({} if parameter == "facet" else measured), **setting_quantities(table)}
    noun = "setting" if parameter == "facet" else "quantity"
    raise InvalidError(f"No {noun} named `{name}`. Choose one of: {', '.join(choices)}.", parameter)


def setting_value(table: RunTable, setting: Setting, key: str, run: AnyRun) -> Cell:
    """Return a field of a setting, which is that of ``run``; None where it has no effect."""
    if key == REGULARIZER:
        return NAMES[setting.regularizer]
    if key in (LAM, ZETA):
        return setting.lam if key == LAM else setting.zeta
    if key in table.fields:
        return setting.values[table.fields.index(key)]
    if key in (TASK, EXPERIMENT):
        return run.experiment.dataset.name if key == TASK else run.experiment.name
    return setting_of(run, [key]).values[0]


def panel_title(key: str, value: Cell) -> str:
    if isinstance(value, str):
        return value if key in SELF_EXPLANATORY else f"{inside(key)} {value}"
    return f"{SYMBOLS[key]} = {short(value)}" if key in SYMBOLS else f"{inside(key)} {short(value)}"


def _setting_quantity(key: str) -> Quantity:
    axis = LAMBDA_AXIS if key == LAM else SYMBOLS.get(key, head(key))
    return Quantity(key, SYMBOLS.get(key, inside(key)), axis, measured=False)
