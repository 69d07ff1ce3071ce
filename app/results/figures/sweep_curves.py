"""Curves of logged task loss and penalty: means over seeds, single runs, or one run."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import chain, groupby
from statistics import fmean
from typing import Any, Literal, NamedTuple

import plotly.graph_objects as go

from app.db.models import Run
from app.db.run_rows import AnyRun
from app.figures import palette
from app.figures.figure import STEP_AXIS, Figure, FigureTable, linear_axis, log_axis, plot
from app.results.captions import describe_means, describe_source, estimate_cells, explain_absence
from app.results.figures import legend
from app.results.labels import describe_penalty
from app.results.run_table import RunTable, Setting
from app.results.statistics.estimate import Estimate, average_by_seed, estimate
from isoscope.core.task import TaskKind

# Pairs of a step and the value logged at it.
Curve = Sequence[tuple[int, float]]
# For each setting, pairs of a step and the mean over the seeds that logged a value at it.
Means = Mapping[Setting, Sequence[tuple[int, Estimate]]]

# With more settings, only the table has the intervals, because bands would overlap.
MAX_BANDS = legend.MAX_ENTRIES
# Numbers of logged values in a moving average, with their names in the form.
WINDOWS = {1: "none", 5: "mean of 5 values", 21: "mean of 21 values"}


class LoggedQuantity(NamedTuple):
    """A quantity that runs log, with its names."""

    slug: str
    column: Literal["task_loss", "penalty"]
    title: str
    axis_title: str
    description: str
    """What the caption says about values of runs that a worker trained."""


TASK_LOSS = LoggedQuantity("learning", "task_loss", "Learning curves", "Task loss", "without the penalty")
PENALTY = LoggedQuantity("penalties", "penalty", "Penalty during training", "Penalty",
                         "as added to the task loss, zero without a regularizer")  # fmt: skip


class CurveStyle(NamedTuple):
    """How curves are drawn. ``seeds`` adds single runs. ``window`` is the number of values in a moving average."""

    seeds: bool = False
    log: bool = False
    window: int = 1


def logged_curves(
    table: RunTable,
    quantity: LoggedQuantity,
    curves_by_run: Mapping[str, Curve],
    note: str = "",
    style: CurveStyle = CurveStyle(),  # noqa: B008
) -> Figure:
    """Return a figure with a line for each setting. ``note`` ends its caption."""
    curves = {run: smooth(curves_by_run[run.id], style.window) for run in table.runs if curves_by_run.get(run.id)}
    means = {
        setting: mean_curve((run.seed, curves[run]) for run in runs)
        for setting, runs in table.by_setting(curves).items()
    }
    figure_table = mean_table(table, quantity.column, means)
    if style.seeds:
        cells_by_setting = {setting: table.cells(setting) for setting in means}
        figure_table = FigureTable(
            [*table.heads, "seed", "step", quantity.column],
            [
                [*cells_by_setting[table.setting(run)], run.seed, step, value]
                for run, curve in curves.items()
                for step, value in curve
            ],
        )
    is_log = style.log and all(value > 0 for curve in curves.values() for _, value in curve)
    return Figure(
        slug=quantity.slug,
        title=quantity.title,
        caption=_caption(table.runs, quantity, means, style, is_log, note) if means else "",
        table=figure_table,
        draw=partial(_draw, table, quantity, means, curves if style.seeds else {}, is_log),
        empty=explain_absence(
            means,
            table.runs,
            "The curves begin when the first run has trained a few steps.",
            f"No run logged a {quantity.axis_title.lower()}.",
        ),
    )


def smooth(curve: Curve, window: int) -> Curve:
    """Return the moving average of a curve over an odd ``window`` of logged values, fewer near its ends."""
    if window == 1:
        return curve
    reach = window // 2
    return [
        (step, fmean(value for _, value in curve[max(0, index - reach) : index + reach + 1]))
        for index, (step, _) in enumerate(curve)
    ]


def mean_curve(curves: Iterable[tuple[int, Curve]]) -> list[tuple[int, Estimate]]:
    """Return the mean over seeds at every logged step. ``curves`` are pairs of seed and curve."""
    values_by_step: dict[int, list[tuple[int, float]]] = {}
    for seed, curve in curves:
        for step, value in curve:
            values_by_step.setdefault(step, []).append((seed, value))
    return [(step, estimate([*average_by_seed(values).values()])) for step, values in sorted(values_by_step.items())]


def count_seeds(means: Means) -> list[int]:
    """Return the number of seeds in each mean, at every step of every setting."""
    return [mean.n for points in means.values() for _, mean in points]


def should_draw_bands(means: Means) -> bool:
    """Return whether to draw intervals as bands: some mean has one, and there are few enough settings."""
    return len(means) <= MAX_BANDS and max(count_seeds(means), default=0) > 1


def mean_traces(table: RunTable, means: Means, *, with_bands: bool) -> list[go.Scatter]:
    """Return the means as lines; if ``with_bands``, in front of their intervals as bands."""
    drawn_settings = list(means)
    traces = []
    for setting, points in means.items() if with_bands else ():
        # A band for each stretch of steps with an interval.
        for has_interval, stretch in groupby(points, key=lambda point: point[1].half_width is not None):
            if has_interval:
                ends = [(step, *mean.ends) for step, mean in stretch]
                reversed_ends = ends[::-1]
                traces.append(
                    go.Scatter(
                        x=[step for step, _, _ in chain(ends, reversed_ends)],
                        y=[*(low for _, low, _ in ends), *(high for _, _, high in reversed_ends)],
                        mode="lines",
                        line={"width": 0},
                        fill="toself",
                        fillcolor=palette.with_opacity(legend.color(table, setting), 0.16),
                        hoverinfo="skip",
                        **legend.entry(table, setting, drawn_settings) | {"showlegend": False},
                    )
                )
    return [
        *traces,
        *(
            go.Scatter(
                x=[step for step, _ in points],
                y=[mean.mean for _, mean in points],
                mode="lines" if len(points) > 1 else "markers",
                line={"color": legend.color(table, setting), "dash": legend.dash(table, setting), "width": 1.8},
                hovertemplate=f"{legend.hover_label(table, setting)}<br>step %{{x:,}}: %{{y:.4~g}}<extra></extra>",
                **legend.entry(table, setting, drawn_settings),
            )
            for setting, points in means.items()
        ),
    ]


def mean_table(table: RunTable, column: str, means: Means) -> FigureTable:
    return FigureTable(
        [*table.heads, "step", "seeds", f"{column}_mean", "ci95_half_width"],
        [
            [*table.cells(setting), step, mean.n, *estimate_cells(mean)]
            for setting, points in means.items()
            for step, mean in points
        ],
    )


def _caption(
    runs: Sequence[AnyRun], quantity: LoggedQuantity, means: Means, style: CurveStyle, is_log: bool, note: str
) -> str:
    seed_counts = count_seeds(means)
    too_many_bands = max(seed_counts) > 1 and not (style.seeds or should_draw_bands(means))
    sentences = (
        f"{quantity.axis_title} {describe_source(runs, quantity.description)}.",
        describe_means(seed_counts),
        "The intervals are in the table: this many bands would overlap." if too_many_bands else "",
        "Thin lines are single runs." if style.seeds else "",
        f"Smoothed: each value is the mean of the {style.window} logged values around it."
        if style.window > 1
        else "As logged: no smoothing.",
        "Some values are not above zero, so the scale stays linear." if style.log and not is_log else "",
        note.strip(),
    )
    return " ".join(filter(None, sentences))


def _draw(
    table: RunTable, quantity: LoggedQuantity, means: Means, curves: Mapping[AnyRun, Curve], is_log: bool
) -> go.Figure:
    # Fit the axis to the lines: a band may reach below zero, where these losses and their logarithms do not exist.
    values = [mean.mean for points in means.values() for _, mean in points]
    values += [value for curve in curves.values() for _, value in curve]
    axis: dict[str, Any] = {"title": {"text": quantity.axis_title}}
    if is_log:
        axis = log_axis(f"{quantity.axis_title}, logarithmic", values)
    elif quantity is TASK_LOSS and min(values, default=0) >= 0:  # the loss that a script logs may be below zero
        axis["rangemode"] = "nonnegative"
    # The curves of a legend entry, which it hides, are one trace with gaps: hundreds of traces would block browsers.
    drawn_settings = list(means)
    gap = (None, None, "")
    points_by_trace: dict[tuple[str, str, str], list[tuple[int | None, float | None, str]]] = {}
    for run, curve in curves.items():
        setting = table.setting(run)
        label = f"{legend.hover_label(table, setting)}, seed {run.seed}"
        legend_group = legend.entry(table, setting, drawn_settings)["legendgroup"]
        mode = "lines" if len(curve) > 1 else "markers"
        points = points_by_trace.setdefault((legend_group, legend.color(table, setting), mode), [])
        points += [*((step, value, label) for step, value in curve), gap]
    run_traces = [
        go.Scatter(
            x=[step for step, _, _ in points[:-1]],
            y=[value for _, value, _ in points[:-1]],
            text=[label for _, _, label in points[:-1]],
            mode=mode,
            line={"color": color, "width": 0.6},
            showlegend=False,
            legendgroup=legend_group,
            hovertemplate="%{text}<br>step %{x:,}: %{y:.4g}<extra></extra>",
        )
        for (legend_group, color, mode), points in points_by_trace.items()
    ]
    return plot(
        [*run_traces, *mean_traces(table, means, with_bands=should_draw_bands(means) and not curves)],
        showlegend=True,
        uirevision="curves",
        xaxis=STEP_AXIS,
        yaxis=axis,
    )


LOSS_NAMES = {
    TaskKind.CLASSIFICATION: "Cross-entropy",
    TaskKind.REGRESSION: "Squared error",
    TaskKind.SPAN: "Cross-entropy of the span’s two ends",
}


def loss_curve(run: Run) -> Figure:
    trained_source = f"{LOSS_NAMES[run.config.task]} of the batches as logged, without the penalty"
    caption = f"{'As its script logged it' if run.config.logged else trained_source}: no smoothing."
    return _run_curve(run, [(step.step, step.task_loss) for step in run.steps], "loss", "Task loss", caption)


def penalty_curve(run: Run) -> Figure:
    caption = f"{describe_penalty(run.config)}, as added to the task loss."
    return _run_curve(run, [(step.step, step.penalty) for step in run.steps], "penalty", "Penalty", caption)


def _run_curve(run: Run, points: list[tuple[int, float | None]], slug: str, title: str, caption: str) -> Figure:
    logged_points = [(step, value) for step, value in points if value is not None]
    return Figure(
        slug=slug,
        title=title,
        caption=caption,
        table=FigureTable(["step", slug], [[step, value] for step, value in logged_points]),
        draw=lambda: plot(
            [
                go.Scatter(
                    x=[step for step, _ in logged_points],
                    y=[value for _, value in logged_points],
                    mode="lines" if len(logged_points) > 1 else "markers",
                    line={"color": palette.lambda_color(run.lam), "width": 1.6},
                    hovertemplate="step %{x:,}: %{y:.4g}<extra></extra>",
                )
            ],
            xaxis=STEP_AXIS,
            yaxis=linear_axis(title, [value for _, value in logged_points]),
        ),
        empty=explain_absence(
            logged_points,
            [run],
            "The curve begins here when the run has trained a few steps.",
            "The run ended before it logged a step.",
        ),
    )
