"""Parallel coordinates: an axis for each setting that varies and for the results, a line for each run."""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import plotly.graph_objects as go

from app.db.config import TrainingOptions
from app.db.options.regularization import REGULARIZER_NAMES
from app.figures import palette
from app.figures.figure import Cell, ColumnarRows, Figure, FigureTable, escape_text, plot
from app.figures.labels import field_in_sentence
from app.results.captions import explain_empty
from app.results.labels import METRIC_AXES
from app.results.run_table import TASK, RunTable, cell_text
from app.results.search.conditions import FIELDS
from isoscope.core.formatting import plural
from isotropy.catalog import Regularizer

MAX_NAME_LENGTH = 24
# Maximum number of different values that get a tick each.
MAX_TICKS = 20
# Fraction of a step that stays free beyond the first and the last.
STEP_MARGIN = 0.15


class ParallelAxis(NamedTuple):
    """An axis with the value of every run."""

    field: str
    """Name in searches of runs; empty if a search cannot filter by it."""
    title: str
    values: list[Cell]
    continuous: bool = False
    """Whether numbers are placed by size instead of at equal steps: they were measured, or chosen by a λ search."""

    @property
    def steps(self) -> list[Cell]:
        """Return the distinct values at equal steps in order, missing ones first; empty if they are placed by size."""
        distinct = list(dict.fromkeys(self.values))
        numbers = sorted(value for value in distinct if isinstance(value, int | float))
        if len(numbers) < len(distinct):
            texts = [value for value in distinct if isinstance(value, str)]
            return [*([None] if None in distinct else []), *numbers, *texts]
        return [] if self.continuous or len(distinct) > MAX_TICKS else [*numbers]

    def dimension(self) -> dict[str, Any]:
        """Return the axis as a dimension of plotly's parallel coordinates."""
        attributes = {"name": self.field, "label": escape_text(self.title, MAX_NAME_LENGTH), "multiselect": False}
        steps = self.steps
        if not steps:
            return attributes | {"values": self.values, "tickformat": ".3~g"}
        labels = [cell_text(step) for step in steps]
        if self.field == "regularizer":
            labels = [REGULARIZER_NAMES[Regularizer(str(step))] for step in steps]
        return attributes | {
            "values": [steps.index(value) for value in self.values],
            "tickvals": list(range(len(steps))),
            "ticktext": [escape_text(label, MAX_NAME_LENGTH) for label in labels],
            "range": [-STEP_MARGIN, len(steps) - 1 + STEP_MARGIN],
        }


def parallel_coordinates(table: RunTable, metric: str) -> Figure:
    runs = [run for run in table.scored_runs if run.isoscore_star is not None]
    settings = [table.setting(run) for run in runs]
    methods: list[Cell] = [setting.regularizer.value for setting in settings]
    lambdas = [setting.lam for setting in settings]
    # A search has no fields for a script's own settings, even with equal names, nor for lists, mappings and defaults.
    searchable_fields = {
        name
        for name in {*table.fields} & {*TrainingOptions.model_fields} & {*FIELDS} - {TASK}
        if all(isinstance(value, str | int | float) for value in table.grid[name])
    }
    candidates = [
        *([ParallelAxis("regularizer", "regularizer", methods)] if len(table.methods) > 1 else []),
        ParallelAxis("lam", "λ", [*lambdas], continuous=table.is_searched),
        ParallelAxis("zeta", "ζ", [setting.zeta for setting in settings], continuous=table.is_searched),
        *(
            ParallelAxis(
                name if name in searchable_fields else "",
                field_in_sentence(name),
                [setting.values[index] for setting in settings],
            )
            for index, name in enumerate(table.fields)
        ),
        ParallelAxis("seed", "seed", [run.seed for run in runs]),
    ]
    axes = [
        *(axis for axis in candidates if len({*axis.values} - {None}) > 1),
        ParallelAxis("isoscore_star", "IsoScore★", [run.isoscore_star for run in runs], continuous=True),
        ParallelAxis("performance", METRIC_AXES[metric].title, [run.performance for run in runs], continuous=True),
    ]
    n_left_out = len(table.finished_runs) - len(runs)
    left_out_note = f" Not drawn, because a value is undefined: {plural(n_left_out, 'run')}." if n_left_out else ""
    return Figure(
        slug="parallel",
        title="Runs by setting",
        caption=f"{plural(len(runs), 'finished run')}, one line per run, colored by λ.{left_out_note} Drag "
        "along an axis to filter runs. The search field shows the filter, and accepts it from the keyboard. Click the "
        "axis to clear it."
        if runs
        else "",
        table=FigureTable([axis.field or axis.title for axis in axes], ColumnarRows(*(axis.values for axis in axes))),
        draw=partial(_draw, axes, lambdas),
        empty=None if runs else explain_empty(table),
        wide=True,
    )


def _draw(axes: Sequence[ParallelAxis], lambdas: Sequence[float]) -> go.Figure:
    distinct_lambdas = sorted({*lambdas})
    # A color scale needs at least two colors.
    scale = distinct_lambdas if len(distinct_lambdas) > 1 else distinct_lambdas * 2
    return plot(
        [
            go.Parcoords(
                dimensions=[axis.dimension() for axis in axes],
                line={
                    "color": [distinct_lambdas.index(lam) for lam in lambdas],
                    "cmin": 0,
                    "cmax": len(scale) - 1,
                    "colorscale": [
                        [index / (len(scale) - 1), palette.lambda_color(lam)] for index, lam in enumerate(scale)
                    ],
                },
                unselected={"line": {"color": palette.QUIET, "opacity": 0.12}},
                # The page writes the values that a brush selects into the search field.
                meta={"steps": [axis.steps for axis in axes]},
                labelside="top",
            )
        ],
        margin={"l": 72, "r": 72, "t": 64, "b": 28},
        uirevision="brushed",
    )
