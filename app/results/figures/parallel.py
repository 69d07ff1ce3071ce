"""Parallel coordinates: an axis for all that runs differ in, and for what came out; a line for each run."""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import plotly.graph_objects as go

from app.db.config import TrainingOptions
from app.db.options.regularization import NAMES
from app.db.run_rows import AnyRun
from app.figures import palette
from app.figures.figure import Cell, Columns, Figure, Table, plain, plot
from app.figures.labels import inside
from app.results.labels import SCALES
from app.results.points import empty
from app.results.run_set import TASK
from app.results.search.conditions import FIELDS
from app.results.sweep import Sweep, cell_text
from isoscope.core.formatting import plural

LONGEST_NAME = 24
MOST_VALUES = 20
"""Different values of a setting that have a tick each."""


class Axis(NamedTuple):
    """What the search of runs calls it, its name, and the value of every run."""

    field: str
    """Empty where it is not one word or number, so that no search can say it."""
    title: str
    values: list[Cell]
    continuous: bool = False
    """Measured, or chosen by a search: its values keep their distances."""

    @property
    def steps(self) -> list[Cell]:
        """The different values of a setting in their order; none of what is continuous, or where they are too many."""
        found = list(dict.fromkeys(self.values))
        numbers = sorted(value for value in found if isinstance(value, int | float))
        if len(numbers) < len(found):
            words_found = [value for value in found if isinstance(value, str)]
            return [*([None] if None in found else []), *numbers, *words_found]
        return [] if self.continuous or len(found) > MOST_VALUES else [*numbers]


def parallel(sweep: Sweep, metric: str) -> Figure:
    """The finished runs that have a performance and an isotropy."""
    runs = [run for run in sweep.finished if run.performance is not None and run.isoscore_star is not None]
    axes = _axes(sweep, runs, metric)
    return Figure(
        slug="parallel",
        title="Runs by all that varies",
        caption=_caption(sweep, runs) if runs else "",
        table=Table([axis.field or axis.title for axis in axes], Columns(*(axis.values for axis in axes))),
        draw=partial(_draw, axes, [sweep.setting(run).lam for run in runs]),
        empty=None if runs else empty(sweep),
        wide=True,
    )


def _axes(sweep: Sweep, runs: Sequence[AnyRun], metric: str) -> list[Axis]:
    """What varies, then what came out. Fields are called as the search of runs calls them."""
    of = [sweep.setting(run) for run in runs]
    methods: list[Cell] = [one.regularizer.value for one in of]
    settings = [
        *([Axis("regularizer", "regularizer", methods)] if sweep.methods[1:] else []),
        Axis("lam", "λ", [one.lam for one in of], continuous=sweep.searched),
        Axis("zeta", "ζ", [one.zeta for one in of], continuous=sweep.searched),
        *(_of_grid(sweep, field, [one.values[place] for one in of]) for place, field in enumerate(sweep.fields)),
        Axis("seed", "seed", [run.seed for run in runs]),
    ]
    return [
        *(axis for axis in settings if len({*axis.values} - {None}) > 1),
        Axis("isoscore_star", "IsoScore★", [run.isoscore_star for run in runs], continuous=True),
        Axis("performance", SCALES[metric].title, [run.performance for run in runs], continuous=True),
    ]


def _of_grid(sweep: Sweep, field: str, values: list[Cell]) -> Axis:
    # A search knows neither a script's own settings, which may be called as other fields are, nor names told apart.
    searched = field in TrainingOptions.model_fields and field in FIELDS and field != TASK
    known = searched and all(isinstance(value, str | int | float) for value in sweep.grid[field])
    return Axis(field if known else "", inside(field), values)


def _caption(sweep: Sweep, runs: Sequence[AnyRun]) -> str:
    left_out = len(sweep.finished) - len(runs)
    missing = f" Not drawn, because a value is undefined: {plural(left_out, 'run')}." if left_out else ""
    return (
        f"{plural(len(runs), 'finished run')}, one line per run, colored by λ.{missing} Drag along an axis to filter "
        "runs. The search field shows the filter, and accepts it from the keyboard. Click the axis to clear it."
    )


def _draw(axes: Sequence[Axis], lams: Sequence[float]) -> go.Figure:
    present = sorted({*lams})
    return plot(
        [
            go.Parcoords(
                dimensions=[_dimension(axis) for axis in axes],
                line={
                    "color": [present.index(lam) for lam in lams],
                    "cmin": 0,
                    "cmax": max(len(present) - 1, 1),
                    "colorscale": _scale(present),
                },
                unselected={"line": {"color": palette.QUIET, "opacity": 0.12}},
                # What a brush over each axis is in words of the search.
                meta={"steps": [axis.steps for axis in axes]},
                labelside="top",
            )
        ],
        margin={"l": 72, "r": 72, "t": 64, "b": 28},
        uirevision="brushed",
    )


def _dimension(axis: Axis) -> dict[str, Any]:
    common = {"name": axis.field, "label": plain(axis.title, LONGEST_NAME), "multiselect": False}
    if not (steps := axis.steps):
        return common | {"values": axis.values}
    return common | {
        "values": [steps.index(value) for value in axis.values],
        "tickvals": list(range(len(steps))),
        "ticktext": [plain(_tick(axis, step), LONGEST_NAME) for step in steps],
        "range": [-0.15, len(steps) - 0.85],
    }


def _tick(axis: Axis, step: Cell) -> str:
    if axis.field == "regularizer":
        return next(name for regularizer, name in NAMES.items() if regularizer.value == step)
    return cell_text(step)


def _scale(lams: Sequence[float]) -> list[list[float | str]]:
    """Colors of λ in their order, each the one that it has in every figure."""
    ends = [*lams, lams[-1]] if len(lams) == 1 else lams
    return [[place / (len(ends) - 1), palette.of_lambda(lam)] for place, lam in enumerate(ends)]
