"""Layers while runs train: measures of the last layer step by step, and a heat map of all layers."""

from collections.abc import Mapping, Sequence
from functools import partial
from math import ceil
from statistics import fmean

import plotly.graph_objects as go

from app.db.models import Run
from app.db.models.runs import LayerMeasurements
from app.db.run_rows import AnyRun
from app.figures import palette
from app.figures.figure import STEP_AXIS, Figure, FigureTable, clipped_axis, plot
from app.results.captions import describe_means, describe_source, describe_texts, explain_absence, format_sizes
from app.results.figures import legend, sweep_curves
from app.results.labels import ANISOTROPY_MEASURES, bounds_of, caution_of, slug_of, title_of, uses_text_vectors
from app.results.run_table import RunTable, Setting
from app.results.statistics.estimate import LAST_PART, Estimate, Row, estimate_over_seeds, group_by_position, tail_mean
from isoscope.core.formatting import number
from isotropy.catalog import MEASURES

ANISOTROPY_COLUMNS = tuple(measure.removeprefix("anisotropy_") for measure in ANISOTROPY_MEASURES)
MAX_LAYER_TICKS = 12
# A step, and the values of a measure at it by layer.
LayersAtStep = tuple[int, Sequence[float | None]]


def measure_during_training(
    table: RunTable, measurements_by_run: Mapping[str, LayerMeasurements], measure: str, note: str = ""
) -> Figure:
    """Return a figure of the last layer over steps, as means over seeds. ``note`` ends its caption."""
    means = {}
    for setting, runs in table.by_setting(table.runs).items():
        curves = ((run.seed, _last_layer_curve(measurements_by_run.get(run.id, ()), measure)) for run in runs)
        if points := sweep_curves.mean_curve(curves):
            means[setting] = points
    vectors = "mean vectors, one of each text," if uses_text_vectors(measure) else "tokens"
    source = f"of the {vectors} of a few {describe_texts(table.runs)}, the same at every step{caution_of(measure)}"
    return Figure(
        slug="watched",
        title=f"{title_of(measure)} during training",
        caption=f"The last layer, {describe_source(table.runs, source)}. "
        f"{describe_means(sweep_curves.count_seeds(means))} Range: {MEASURES[slug_of(measure)].range}.{note}"
        if means
        else "",
        table=sweep_curves.mean_table(table, measure, means),
        draw=lambda: plot(
            sweep_curves.mean_traces(table, means, with_bands=sweep_curves.should_draw_bands(means)),
            showlegend=True,
            xaxis=STEP_AXIS,
            uirevision="curves",
            yaxis=clipped_axis(title_of(measure), bounds_of(measure)),
        ),
        empty=explain_absence(
            means,
            table.runs,
            "The lines begin at the first measurement of a run's layers.",
            "No run measured this during training.",
        ),
    )


def late_anisotropy(table: RunTable, measurements_by_run: Mapping[str, LayerMeasurements], note: str = "") -> Figure:
    """Return a figure of k-th anisotropy late in training. ``note`` ends its caption."""
    means: dict[Setting, list[Estimate | None]] = {}
    for setting, runs in table.finished_by_setting.items():
        setting_means = [
            estimate_over_seeds(
                (run.seed, tail_mean(_last_layer_curve(measurements, measure), last_step=measurements[-1][0]))
                for run in runs
                if (measurements := measurements_by_run.get(run.id))
            )
            for measure in ANISOTROPY_MEASURES
        ]
        if any(setting_means):
            means[setting] = setting_means
    seed_counts = [mean.n for setting_means in means.values() for mean in setting_means if mean]
    has_intervals = max(seed_counts, default=0) > 1
    return Figure(
        slug="late-anisotropy",
        title="k-th anisotropy late in training",
        caption=f"Of the last layer, averaged over the measurements in the last {100 * LAST_PART:.0f}% of training. "
        f"{describe_means(seed_counts)} Raw: with the mean of the points; centered: without it.{note}"
        if means
        else "",
        table=FigureTable(
            [*table.heads, *ANISOTROPY_COLUMNS,
             *(f"{name}_ci95_half_width" for name in ANISOTROPY_COLUMNS if has_intervals),
             *(f"{name}_seeds" for name in ANISOTROPY_COLUMNS)],
            [
                [
                    *table.cells(setting),
                    *(mean.mean if mean else None for mean in setting_means),
                    *(mean.half_width if mean else None for mean in setting_means if has_intervals),
                    *(mean.n if mean else 0 for mean in setting_means),
                ]
                for setting, setting_means in means.items()
            ],
        ),
        draw=partial(_draw_late_anisotropy, table, means),
        empty=explain_absence(means, table.runs,
            "Averages appear when the first run has ended.",
            "No run measured anisotropy during training.",
        ),
    )  # fmt: skip


def _last_layer_curve(measurements: LayerMeasurements, measure: str) -> list[tuple[int, float]]:
    """Return pairs of a step and the last layer's value at it, without steps where it is missing."""
    return [
        (step, value)
        for step, layers in measurements
        if (values := layers.get(measure)) and (value := values[-1]) is not None
    ]


def _draw_late_anisotropy(table: RunTable, means: Mapping[Setting, Sequence[Estimate | None]]) -> go.Figure:
    traces = []
    for setting, setting_means in means.items():
        raw_means, centered_means = setting_means[:3], setting_means[3:]
        for axis, panel_means in (("x", raw_means), ("x2", centered_means)):
            half_widths = [mean.half_width if mean else None for mean in panel_means]
            trace = go.Scatter(
                x=list(range(1, len(panel_means) + 1)),
                y=[mean.mean if mean else None for mean in panel_means],
                error_y={"array": half_widths, "thickness": 1.2, "width": 3},
                mode="lines+markers",
                xaxis=axis,
                line={"color": legend.color(table, setting), "dash": legend.dash(table, setting), "width": 1.6},
                marker={"symbol": legend.symbol(table, setting.family), "size": 7},
                hovertemplate=f"{legend.hover_label(table, setting)}<br>k = %{{x}}: %{{y:.3~g}}<extra></extra>",
                **legend.entry(table, setting, list(means)) | ({} if axis == "x" else {"showlegend": False}),
            )
            traces.append(trace)
    return plot(
        traces,
        showlegend=True,
        xaxis={"title": {"text": "k, raw"}, "dtick": 1, "domain": [0, 0.47]},
        xaxis2={"title": {"text": "k, centered"}, "dtick": 1, "domain": [0.53, 1], "anchor": "y"},
        yaxis=clipped_axis("k-th anisotropy", bounds_of(ANISOTROPY_MEASURES[0])) | {"rangemode": "tozero"},
    )


def run_heat_map(run: Run, measure: str) -> Figure:
    """Return a heat map of a measure of a run by layer and step. Large values are dark."""
    measurements = [(step.step, step.layers[measure]) for step in run.steps if step.layers and measure in step.layers]
    return _heat_map([run], measurements, measure, f"{title_of(measure)} by layer and step", "")


def setting_heat_map(
    table: RunTable, setting: Setting, measurements_by_run: Mapping[str, LayerMeasurements], measure: str, note: str
) -> Figure:
    """Return a heat map of a setting by layer and step, as means over seeds. ``note`` ends its caption."""
    runs = [run for run in table.runs if table.setting(run) == setting]
    rows_by_step: dict[int, list[Row]] = {}
    for run in runs:
        for step, layers in measurements_by_run.get(run.id, ()):
            if values := layers.get(measure):
                rows_by_step.setdefault(step, []).append((run.seed, values))
    measurements: list[LayersAtStep] = []
    seed_counts: list[int] = []
    for step, rows in sorted(rows_by_step.items()):
        seed_values_of_layers = group_by_position(rows)
        measurements.append((step, [fmean(values) if values else None for values in seed_values_of_layers]))
        seed_counts += [len(values) for values in seed_values_of_layers if values]
    means_note = ""
    if seed_counts:
        means_note = f" {'Means over seeds' if max(seed_counts) > 1 else 'Of one seed'} ({format_sizes(seed_counts)})."
    title = f"{title_of(measure)} by layer and step, {table.label(setting)}"
    return _heat_map(runs, measurements, measure, title, means_note + note)


def _heat_map(
    runs: Sequence[AnyRun], measurements: Sequence[LayersAtStep], measure: str, title: str, note: str
) -> Figure:
    n_layers = max((len(values) for _, values in measurements), default=0)
    numbers = [value for _, values in measurements for value in values if value is not None]
    shade_note = f"Light is {number(min(numbers))}, dark {number(max(numbers))}; range" if numbers else "Range"
    vectors = "one mean vector for each" if uses_text_vectors(measure) else "the tokens"
    source = f"of {vectors} of the same few {describe_texts(runs)} each time{caution_of(measure)}"
    gap_note = " Empty: the measure was undefined at that step, because points were all equal or not finite."
    return Figure(
        slug="layers",
        title=title,
        caption=f"By layer, {describe_source(runs, source)}. {shade_note}: {MEASURES[slug_of(measure)].range}."
        f"{gap_note if any(None in values for _, values in measurements) else ''}{note}",
        table=FigureTable(
            ["step", *(f"layer_{layer + 1}" for layer in range(n_layers))],
            [[step, *values, *[None] * (n_layers - len(values))] for step, values in measurements],
        ),
        draw=partial(_draw_heat_map, measurements, n_layers),
        empty=explain_absence(
            measurements,
            runs,
            "A column appears after each measurement. The first is taken before training.",
            "This measure was not taken during training.",
        ),
    )


def _draw_heat_map(measurements: Sequence[LayersAtStep], n_layers: int) -> go.Figure:
    heat_map = go.Heatmap(
        x=[step for step, _ in measurements],
        y=list(range(1, n_layers + 1)),
        z=[[values[layer] if layer < len(values) else None for _, values in measurements] for layer in range(n_layers)],
        xgap=1,
        ygap=1,
        colorscale=palette.COLORSCALE,
        showscale=False,
        hovertemplate="layer %{y}, step %{x:,}: %{z:.4~g}<extra></extra>",
    )
    bare_axis = {"showline": False, "showgrid": False}
    # A cell reaches halfway to its neighbors, but no run has steps before 0 or after its last.
    x_range = {"range": [measurements[0][0], measurements[-1][0]]} if len(measurements) > 1 else {}
    return plot(
        [heat_map],
        xaxis={"title": {"text": "Optimizer step"}, **bare_axis, **x_range},
        yaxis={"title": {"text": "Layer"}, "dtick": max(1, ceil(n_layers / MAX_LAYER_TICKS)), "tick0": 1, **bare_axis},
    )
