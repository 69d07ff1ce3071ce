"""Layers while runs train: measures of the last layer step by step, and a heat map of all layers."""

from collections.abc import Mapping, Sequence
from functools import partial
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

SHARE_NAMES = tuple(share.removeprefix("anisotropy_") for share in ANISOTROPY_MEASURES)
# A step, and the values of all layers at it.
LayerMeasurement = tuple[int, Sequence[float | None]]


def measure_during_training(
    table: RunTable, measurements_by_run: Mapping[str, LayerMeasurements], measure: str, sample: str = ""
) -> Figure:
    """Return a measure of the last layer over steps, as the mean over seeds of each setting.

    ``sample`` is a sentence about the part of the measurements that is drawn, if not all.
    """
    means = {
        setting: points
        for setting, runs in table.by_setting(table.runs).items()
        if (
            points := sweep_curves.mean_curve(
                (run.seed, _last_layer(measurements_by_run.get(run.id, ()), measure)) for run in runs
            )
        )
    }
    vectors = "mean vectors, one of each text," if uses_text_vectors(measure) else "tokens"
    source = f"of the {vectors} of a few {describe_texts(table.runs)}, the same at every step{caution_of(measure)}"
    return Figure(
        slug="watched",
        title=f"{title_of(measure)} during training",
        caption=f"The last layer, {describe_source(table.runs, source)}. "
        f"{describe_means(sweep_curves.count_seeds(means))} Range: {MEASURES[slug_of(measure)].range}.{sample}"
        if means
        else "",
        table=sweep_curves.mean_table(table, measure, means),
        draw=lambda: plot(
            sweep_curves.mean_traces(table, means, bands=sweep_curves.can_draw_bands(means)),
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


def late_anisotropy(table: RunTable, measurements_by_run: Mapping[str, LayerMeasurements], sample: str = "") -> Figure:
    """Return k-th anisotropy of the last layer, raw and centered, averaged over the last part of training.

    ``sample`` is a sentence about the part of the measurements that is drawn, if not all.
    """
    means: dict[Setting, list[Estimate | None]] = {}
    for setting, runs in table.finished_by_setting.items():
        shares = [
            estimate_over_seeds(
                (run.seed, tail_mean(_last_layer(run_measurements, share), run_measurements[-1][0]))
                for run in runs
                if (run_measurements := measurements_by_run.get(run.id))
            )
            for share in ANISOTROPY_MEASURES
        ]
        if any(shares):
            means[setting] = shares
    sizes = [mean.n for shares in means.values() for mean in shares if mean]
    intervals = max(sizes, default=0) > 1
    return Figure(
        slug="late-anisotropy",
        title="k-th anisotropy late in training",
        caption=f"Of the last layer, averaged over the measurements in the last {100 * LAST_PART:.0f}% of training. "
        f"{describe_means(sizes)} Raw: with the mean of the points; centered: without it.{sample}"
        if means
        else "",
        table=FigureTable(
            [*table.heads, *SHARE_NAMES, *(f"{name}_ci95_half_width" for name in SHARE_NAMES if intervals),
             *(f"{name}_seeds" for name in SHARE_NAMES)],
            [
                [
                    *table.cells(setting),
                    *(mean.mean if mean else None for mean in shares),
                    *(mean.half_width if mean else None for mean in shares if intervals),
                    *(mean.n if mean else 0 for mean in shares),
                ]
                for setting, shares in means.items()
            ],
        ),
        draw=partial(_draw_shares, table, means),
        empty=explain_absence(means, table.runs,
            "Averages appear when the first run has ended.",
            "No run measured anisotropy during training.",
        ),
    )  # fmt: skip


def _last_layer(measurements: LayerMeasurements, measure: str) -> list[tuple[int, float]]:
    return [
        (step, value)
        for step, layers in measurements
        if (values := layers.get(measure)) and (value := values[-1]) is not None
    ]


def _draw_shares(table: RunTable, means: Mapping[Setting, Sequence[Estimate | None]]) -> go.Figure:
    panels = (("x", slice(3)), ("x2", slice(3, None)))  # three raw measures, then three centered ones
    return plot(
        [
            go.Scatter(
                x=list(range(1, len(shares[panel]) + 1)),
                y=[share.mean if share else None for share in shares[panel]],
                error_y={
                    "array": [share.half_width if share else None for share in shares[panel]],
                    "thickness": 1.2,
                    "width": 3,
                },
                mode="lines+markers",
                xaxis=axis,
                line={"color": legend.color(table, setting), "dash": legend.dash(table, setting), "width": 1.6},
                marker={"symbol": legend.symbol(table, setting.family), "size": 7},
                hovertemplate=f"{legend.hover_label(table, setting)}<br>k = %{{x}}: %{{y:.3~g}}<extra></extra>",
                **legend.entry(table, setting, list(means)) | ({} if axis == "x" else {"showlegend": False}),
            )
            for setting, shares in means.items()
            for axis, panel in panels
        ],
        showlegend=True,
        xaxis={"title": {"text": "k, raw"}, "dtick": 1, "domain": [0, 0.47]},
        xaxis2={"title": {"text": "k, centered"}, "dtick": 1, "domain": [0.53, 1], "anchor": "y"},
        yaxis=clipped_axis("k-th anisotropy", bounds_of(ANISOTROPY_MEASURES[0])) | {"rangemode": "tozero"},
    )


def run_heat_map(run: Run, measure: str) -> Figure:
    """Return a measure of a run by layer and step. Large values are dark."""
    measurements = [(step.step, step.layers[measure]) for step in run.steps if step.layers and measure in step.layers]
    return _heat_map([run], measurements, measure, f"{title_of(measure)} by layer and step", "")


def setting_heat_map(
    table: RunTable, setting: Setting, measurements_by_run: Mapping[str, LayerMeasurements], measure: str, sample: str
) -> Figure:
    """Return a measure by layer and step, as the mean over the seeds of a setting.

    ``sample`` is a sentence about the part of the measurements that is drawn, if not all.
    """
    runs = [run for run in table.runs if table.setting(run) == setting]
    rows_by_step: dict[int, list[Row]] = {}
    for run in runs:
        for step, layers in measurements_by_run.get(run.id, ()):
            if values := layers.get(measure):
                rows_by_step.setdefault(step, []).append((run.seed, values))
    seeds_by_layer = [(step, group_by_position(rows)) for step, rows in sorted(rows_by_step.items())]
    measurements = [(step, [fmean(seeds) if seeds else None for seeds in layers]) for step, layers in seeds_by_layer]
    sizes = [len(seeds) for _, layers in seeds_by_layer for seeds in layers if seeds]
    means_note = f" {'Means over seeds' if max(sizes) > 1 else 'Of one seed'} ({format_sizes(sizes)})." if sizes else ""
    title = f"{title_of(measure)} by layer and step, {table.label(setting)}"
    return _heat_map(runs, measurements, measure, title, means_note + sample)


def _heat_map(
    runs: Sequence[AnyRun], measurements: Sequence[LayerMeasurement], measure: str, title: str, note: str
) -> Figure:
    depth = max((len(values) for _, values in measurements), default=0)
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
            ["step", *(f"layer_{layer + 1}" for layer in range(depth))],
            [[step, *values, *[None] * (depth - len(values))] for step, values in measurements],
        ),
        draw=partial(_draw_heat_map, measurements, depth),
        empty=explain_absence(
            measurements,
            runs,
            "A column appears after each measurement. The first is taken before training.",
            "This measure was not taken during training.",
        ),
    )


def _draw_heat_map(measurements: Sequence[LayerMeasurement], depth: int) -> go.Figure:
    heat_map = go.Heatmap(
        x=[step for step, _ in measurements],
        y=list(range(1, depth + 1)),
        z=[[values[layer] if layer < len(values) else None for _, values in measurements] for layer in range(depth)],
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
        yaxis={"title": {"text": "Layer"}, "dtick": max(1, -(-depth // 12)), "tick0": 1, **bare_axis},
    )
