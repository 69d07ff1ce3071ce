"""Trained models: mean and spread of each dimension, and one measure from layer to layer."""

from collections.abc import Mapping, Sequence
from functools import partial
from math import ceil, sqrt
from statistics import fmean
from typing import Any, NamedTuple

import plotly.graph_objects as go

from app.figures.figure import Cell, ColumnarRows, Figure, FigureTable, band, plot
from app.results.captions import (
    describe_means,
    describe_source,
    describe_texts,
    estimate_cells,
    explain_absence,
    format_sizes,
    join_first,
)
from app.results.figures import legend
from app.results.figures.layer_curves import MAX_LAYER_TICKS
from app.results.labels import slug_of, title_of
from app.results.run_table import RunTable, Setting
from app.results.statistics.estimate import Estimate, estimate, group_by_position
from isoscope.core.formatting import count
from isotropy.catalog import MEASURES

# With more settings, only the table has the spread, because bands would overlap.
MAX_BANDS = 1

# Stored figure data by run id.
RunData = Mapping[str, Mapping[str, Any]]


class Profile(NamedTuple):
    """Mean and standard deviation of every dimension over ``n_rows`` rows, averaged over seeds."""

    mean: list[float]
    std: list[float]
    n_rows: int
    n_seeds: int


def activation_profiles(table: RunTable, activation_by_run: RunData) -> Figure:
    """Return a figure of the mean activations of each setting, with their spread if only one setting is drawn.

    Each activation has the ``mean`` and ``std`` of each dimension, and the number ``n`` of rows.
    """
    runs_by_setting = table.by_setting(run for run in table.runs if run.id in activation_by_run)
    profiles: dict[Setting, Profile] = {}
    left_out_labels = []
    for setting, runs in runs_by_setting.items():
        if len({len(activation_by_run[run.id]["mean"]) for run in runs}) > 1:
            left_out_labels.append(table.label(setting))
            continue
        means = ((run.seed, activation_by_run[run.id]["mean"]) for run in runs)
        variances = ((run.seed, [std * std for std in activation_by_run[run.id]["std"]]) for run in runs)
        profiles[setting] = Profile(
            [fmean(seed_means) for seed_means in group_by_position(means)],
            [sqrt(fmean(seed_variances)) for seed_variances in group_by_position(variances)],
            min(activation_by_run[run.id]["n"] for run in runs),
            len({run.seed for run in runs}),
        )
    left_out_note = ""
    if left_out_labels:
        left_out_note = (
            " Not drawn, because their models have different numbers of dimensions: "
            f"{join_first(left_out_labels)}. Group by model to draw them."
        )
    caption = ""
    if profiles:
        texts = describe_texts(table.runs, min(profile.n_rows for profile in profiles.values()))
        seeds = format_sizes([profile.n_seeds for profile in profiles.values()])
        has_bands = len(profiles) <= MAX_BANDS
        band_note = " (line) with one standard deviation on each side (band)" if has_bands else ""
        caption = f"Mean of each dimension{band_note} of the last layer’s sentence vectors, n = {texts}"
        caption += "." if len(table.runs) == 1 else f"; averaged over seeds ({seeds})."
        caption += "" if has_bands else " The table has the standard deviations."
    reason_if_empty = explain_absence(
        profiles,
        table.runs,
        "The first diagram appears here when the first run has finished.",
        "No run stored the activation of its dimensions.",
    )
    return Figure(
        slug="activation",
        title="Activation by dimension",
        caption=caption + left_out_note if profiles else "",
        table=_profile_table(table, profiles),
        draw=partial(_draw_profiles, table, profiles),
        empty=None if profiles else left_out_note.strip() or reason_if_empty,
    )


def _profile_table(table: RunTable, profiles: Mapping[Setting, Profile]) -> FigureTable:
    """Return a row for each dimension, with a column of means and one of standard deviations for each setting."""
    if not profiles:
        return FigureTable([], [])
    heads = [
        f"{head}: {table.label(setting)}" if len(profiles) > 1 else head
        for setting in profiles
        for head in ("mean", "standard_deviation")
    ]
    n_dimensions = max(len(profile.mean) for profile in profiles.values())
    columns: list[Sequence[Cell]] = [
        [*column, *[None] * (n_dimensions - len(column))]
        for profile in profiles.values()
        for column in (profile.mean, profile.std)
    ]
    return FigureTable(["dimension", *heads], ColumnarRows(range(n_dimensions), *columns))


def _draw_profiles(table: RunTable, profiles: Mapping[Setting, Profile]) -> go.Figure:
    has_bands = len(profiles) <= MAX_BANDS
    traces: list[go.Scatter] = []
    for setting, profile in profiles.items():
        x = list(range(len(profile.mean)))
        color = legend.color(table, setting)
        if has_bands:
            low, high = (
                [mean + sign * std for mean, std in zip(profile.mean, profile.std, strict=True)] for sign in (-1, 1)
            )
            traces += band(x, low, high, color, opacity=0.22)
        traces.append(
            go.Scatter(
                x=x,
                y=profile.mean,
                mode="lines",
                line={"color": color, "dash": legend.dash(table, setting), "width": 1.1},
                **legend.entry(table, setting, list(profiles)),
                customdata=profile.std,
                hovertemplate=f"{legend.hover_label(table, setting)}<br>dimension %{{x:,}}"
                "<br>mean %{y:.3g}, sd %{customdata:.3g}<extra></extra>",
            )
        )
    n_dimensions = max(len(profile.mean) for profile in profiles.values())
    return plot(
        traces,
        showlegend=not has_bands,
        xaxis={"title": {"text": "Dimension"}, "range": [-0.5, n_dimensions - 0.5]},
        yaxis={"title": {"text": "Activation (band: 1 sd)" if has_bands else "Mean activation"}},
    )


def measure_by_layer(table: RunTable, result_by_run: RunData, measure: str) -> Figure:
    """Return a figure of a measure by layer, with a line for each setting.

    Each result has the ``values`` by layer, the ``reasons`` for missing ones, and the number ``n`` of rows, if known.
    """
    means: dict[Setting, list[Estimate | None]] = {}
    for setting, runs in table.by_setting(table.runs).items():
        rows = ((run.seed, result_by_run[run.id]["values"]) for run in runs if run.id in result_by_run)
        seed_values_of_layers = group_by_position(rows)
        if any(seed_values_of_layers):
            means[setting] = [estimate(values) if values else None for values in seed_values_of_layers]
    caption = ""
    if means:
        row_counts = sorted({result["n"] for result in result_by_run.values() if result.get("n") is not None})
        smallest_count = f"{count(row_counts[0])} to " if len(row_counts) > 1 else ""
        texts = f" of {smallest_count}{describe_texts(table.runs, row_counts[-1])}" if row_counts else ""
        source = describe_source(table.runs, f"of the sentence vectors{texts}")
        caption = f"By layer, {source}. Range: {MEASURES[slug_of(measure)].range}."
        if len(table.runs) > 1:
            caption += f" {describe_means([mean.n for layers in means.values() for mean in layers if mean])}"
    reasons = [reason for result in result_by_run.values() for reason in result.get("reasons", []) if reason]
    reason_if_empty = explain_absence(
        means, table.runs, "The first line appears here when the first run has finished.", "It was not measured."
    )
    return Figure(
        slug=measure,
        title=f"{title_of(measure)} by layer",
        caption=caption,
        table=FigureTable(
            [*table.heads, "layer", "seeds", f"{measure}_mean", "ci95_half_width"],
            [
                [*table.cells(setting), layer, mean.n if mean else 0, *estimate_cells(mean)]
                for setting, layers in means.items()
                for layer, mean in enumerate(layers, 1)
            ],
        ),
        draw=partial(_draw_layers, table, means, title_of(measure)),
        empty=f"It is undefined in every layer: {reasons[0]}" if reason_if_empty and reasons else reason_if_empty,
    )


def _draw_layers(table: RunTable, means: Mapping[Setting, Sequence[Estimate | None]], title: str) -> go.Figure:
    n_layers = max(map(len, means.values()))
    traces = []
    for setting, layers in means.items():
        color = legend.color(table, setting)
        half_widths = [mean.half_width if mean else None for mean in layers]
        traces.append(
            go.Scatter(
                x=list(range(1, len(layers) + 1)),
                y=[mean.mean if mean else None for mean in layers],
                error_y={"array": half_widths, "color": color, "thickness": 0.8, "width": 3},
                mode="lines+markers",
                line={"color": color, "dash": legend.dash(table, setting), "width": 1.8},
                marker={"symbol": legend.symbol(table, setting.family), "size": 6},
                **legend.entry(table, setting, list(means)),
                hovertemplate=f"{legend.hover_label(table, setting)}<br>layer %{{x}}: %{{y:.4~g}}<extra></extra>",
            )
        )
    return plot(
        traces,
        showlegend=len(means) > 1,
        xaxis={"title": {"text": "Layer"}, "dtick": ceil(n_layers / MAX_LAYER_TICKS), "range": [0.7, n_layers + 0.3]},
        yaxis={"title": {"text": title}, "rangemode": "nonnegative"},
    )
