"""Settings against lambda = 0: each method's best, and every difference with its interval."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

import plotly.graph_objects as go

from app.db.options.regularization import REGULARIZER_NAMES
from app.db.run_rows import AnyRun
from app.figures import palette
from app.figures.figure import Figure, FigureTable, escape_text, plot, vertical_line
from app.results.captions import describe_means, describe_pruned, describe_unscored, estimate_cells, explain_empty
from app.results.conclusion.comparisons import DECIDED, Comparison
from app.results.conclusion.verdict_words import format_interval, format_signed
from app.results.figures import legend
from app.results.figures.scatter import QUIET_LINE, error_bar
from app.results.figures.trivial import TrivialPredictor
from app.results.labels import METRIC_AXES
from app.results.run_table import RunTable, Setting
from app.results.statistics.estimate import Estimate, estimate_over_seeds
from isoscope.core.formatting import count, number, plural
from isotropy.catalog import Regularizer

MAX_NAME_LENGTH = 40
# Margins beyond the longest bar, as fractions of the axis: with and without a number there.
NUMBER_MARGIN, PLAIN_MARGIN = 0.22, 0.1
# Maximum number of settings in a plot. The table has all.
MAX_SETTINGS = 60
DIFFERENCE_HEADS = [
    "verdict", "difference", "low", "high", "pooled_half_width", "p_adjusted", "comparisons", "error_of", "seeds",
    "rows",
]  # fmt: skip


class MethodBar(NamedTuple):
    """The best of ``n_settings`` settings of a regularizer with λ on one side of zero, or of plain training."""

    method: str
    setting: Setting
    runs: Sequence[AnyRun]
    performance: Estimate
    n_settings: int


def method_bars(table: RunTable, metric: str) -> Figure:
    bars = list(_find_best_bars(table))
    pruned = describe_pruned(table, "Left out")
    trivial = TrivialPredictor.from_runs(table, [run for bar in bars for run in bar.runs])
    caption = ""
    if bars:
        caption = describe_means([bar.performance.n for bar in bars])
        n_settings = max(bar.n_settings for bar in bars)
        if n_settings > 1:
            caption += (
                f" Each bar is the best of up to {count(n_settings)} settings, chosen on the same rows. Methods with "
                "more settings look better. Compare them on a test split."
            )
        caption += trivial.caption() + pruned + describe_unscored(table)
    performance_heads = ["performance_mean", "performance_ci95_half_width"]
    return Figure(
        slug="methods",
        title="Performance by method",
        caption=caption,
        table=FigureTable(
            ["method", *table.heads, "settings", "seeds", *performance_heads, *trivial.heads],
            [
                [
                    bar.method,
                    *table.cells(bar.setting),
                    bar.n_settings,
                    bar.performance.n,
                    *estimate_cells(bar.performance),
                    *trivial.cells(bar.setting),
                ]
                for bar in bars
            ],
        ),
        draw=partial(_draw_method_bars, table, bars, metric, trivial),
        empty=None if bars else pruned.strip() or explain_empty(table),
    )


def _find_best_bars(table: RunTable) -> Iterator[MethodBar]:
    """Yield a bar for each regularizer and sign of λ, without settings that have pruned runs."""
    eligible_runs = (run for run in table.scored_runs if table.setting(run) not in table.pruned_settings)
    runs_by_setting = table.by_setting(eligible_runs)
    means = {
        setting: mean
        for setting, runs in runs_by_setting.items()
        if (mean := estimate_over_seeds((run.seed, run.performance) for run in runs))
    }
    for sign, side_words in ((-1, ", λ < 0"), (0, ""), (1, ", λ > 0")):
        for regularizer in Regularizer:
            settings = [
                setting
                for setting in means
                if setting.regularizer is regularizer and (setting.lam > 0) - (setting.lam < 0) == sign
            ]
            if settings:
                best = max(settings, key=lambda setting: means[setting].mean)
                method = REGULARIZER_NAMES[regularizer] + side_words
                yield MethodBar(method, best, runs_by_setting[best], means[best], len(settings))


def _draw_method_bars(table: RunTable, bars: Sequence[MethodBar], metric: str, trivial: TrivialPredictor) -> go.Figure:
    metric_axis = METRIC_AXES[metric]
    means = [bar.performance for bar in bars]
    ends = [end for mean in means for end in mean.ends]
    low, high = min(0.0, *ends), max(0.0, *ends)
    number_margin = NUMBER_MARGIN * (high - low) or 1.0
    lower_margin = number_margin if any(mean.mean < 0 for mean in means) else PLAIN_MARGIN * -low
    upper_margin = number_margin if any(mean.mean >= 0 for mean in means) else 0.0
    limits = trivial.widen([low - lower_margin, high + upper_margin])
    trivial_lines = trivial.line_shapes(limits, "x")
    tick_labels = []
    for bar in bars:
        name = REGULARIZER_NAMES[bar.setting.regularizer]
        setting_label = table.label(bar.setting).removeprefix(name).removeprefix(", ")
        if bar.n_settings > 1:
            tick_label = f"{bar.method}<br>{escape_text(setting_label, MAX_NAME_LENGTH)}"
        else:
            tick_label = name if bar.setting.is_baseline else escape_text(f"{name}, {setting_label}", MAX_NAME_LENGTH)
        tick_labels.append(tick_label)
    return plot(
        [
            *(go.Bar(
                x=[bar.performance.mean],
                y=[index],
                orientation="h",
                showlegend=False,
                width=0.6,
                error_x=error_bar(bar.performance) | {"color": palette.QUIET},
                marker={"color": legend.color(table, bar.setting)},
                hovertext=f"{legend.hover_label(table, bar.setting)}<br>best of {count(bar.n_settings)}"
                f"<br>{number(bar.performance.mean, 4)}{trivial.describe(bar.setting)}",
                hoverinfo="text",
            )
            for index, bar in enumerate(bars)),
            *trivial.cross_traces([(bar.setting, bar.performance.mean, index) for index, bar in enumerate(bars)]),
        ],
        shapes=trivial_lines,
        showlegend=bool(trivial_lines),
        annotations=[
            # The number stands beyond the end of the interval, away from zero.
            {"x": bar.performance.ends[0 if bar.performance.mean < 0 else 1], "y": index,
             "text": f" {number(bar.performance.mean)} ", "showarrow": False,
             "xanchor": "right" if bar.performance.mean < 0 else "left"}
            for index, bar in enumerate(bars)
        ],
        xaxis={"title": {"text": f"{metric_axis.title} ({metric_axis.range})"}, "range": limits},
        yaxis={"tickvals": list(range(len(bars))), "ticktext": tick_labels,
               "autorange": "reversed", "ticks": "", "showgrid": False},
    )  # fmt: skip


def baseline_differences(table: RunTable, comparisons: Sequence[Comparison], metric: str) -> Figure:
    """Return a figure of mean differences in performance with simultaneous 95% intervals, one for each setting."""
    caption, reason_if_empty = "", None
    if comparisons:
        n_comparisons = max(comparison.family_size for comparison in comparisons)
        family_note = f", simultaneous over {count(n_comparisons)} comparisons" if n_comparisons > 1 else ""
        caption = (
            f"Bars are 95% intervals{family_note}: a bar that excludes 0 is a verdict if it has three seeds or more."
        )
        if n_without_bar := sum(comparison.contrast.p is None for comparison in comparisons):
            caption += (
                f" {plural(n_without_bar, 'setting')} without a bar: unfinished, collapsed, too few seeds, or "
                "the same difference in every seed."
            )
        if (n := len(comparisons)) > MAX_SETTINGS:
            caption += f" The first {MAX_SETTINGS} of {count(n)} settings are drawn."
    else:
        all_ended = all(run.status.final for run in table.runs)
        no_pairs = "No setting has a run at λ = 0 with the same seed to be compared with."
        reason_if_empty = no_pairs if all_ended else explain_empty(table)
    return Figure(
        slug="differences",
        title="Difference from λ = 0",
        caption=caption,
        table=FigureTable(
            [*table.heads, *DIFFERENCE_HEADS],
            [
                [*table.cells(comparison.setting), comparison.verdict.value, comparison.estimate, contrast.low,
                 contrast.high, contrast.pooled_half_width, contrast.p, comparison.family_size,
                 comparison.method.value, len(comparison.seeds), comparison.n_rows]
                for comparison in comparisons
                for contrast in [comparison.contrast]
            ],
        ),
        draw=partial(_draw_differences, table, comparisons[:MAX_SETTINGS], metric),
        empty=reason_if_empty,
    )  # fmt: skip


def _draw_differences(table: RunTable, comparisons: Sequence[Comparison], metric: str) -> go.Figure:
    labels = [escape_text(comparison.label, MAX_NAME_LENGTH) for comparison in comparisons]
    traces = []
    for index, comparison in enumerate(comparisons):
        low, high = comparison.contrast.low, comparison.contrast.high
        difference = format_signed(comparison.estimate)
        interval = "no interval" if low is None or high is None else format_interval(low, high)
        rows = f" × {plural(comparison.n_rows, 'row')}" if comparison.n_rows is not None else ""
        interval_bar: dict[str, object] = {"visible": False}
        if high is not None:
            interval_bar = {"type": "data", "array": [high - comparison.estimate], "color": palette.QUIET,
                            "thickness": 2, "width": 5}  # fmt: skip
        traces.append(
            go.Scatter(
                x=[comparison.estimate],
                y=[index],
                mode="markers",
                marker={
                    "color": legend.color(table, comparison.setting),
                    "size": 11,
                    "symbol": "circle" if comparison.verdict in DECIDED else "circle-open",
                    "line": {"width": 2},
                },
                error_x=interval_bar,
                hovertext=f"{labels[index]}: {comparison.verdict.value}<br>{difference} {interval}"
                f"<br>{plural(len(comparison.seeds), 'seed')}{rows}",
                hoverinfo="text",
            )
        )
    return plot(
        traces,
        shapes=[vertical_line(0, QUIET_LINE)],
        xaxis={"title": {"text": f"Difference in {METRIC_AXES[metric].title} from λ = 0"}},
        yaxis={"tickvals": list(range(len(comparisons))), "ticktext": labels,
               "range": [len(comparisons) - 0.5, -0.5], "ticks": "", "showgrid": False},
    )  # fmt: skip
