"""Figures of a search for lambda and zeta: Pareto front, history and search plane; and its outcome."""

from collections.abc import Sequence
from functools import partial
from itertools import accumulate
from math import ceil
from typing import Any, NamedTuple

import plotly.graph_objects as go

from app.db.models import Experiment
from app.db.options.regularization import describe_regularizer
from app.db.study import Search, Trial, group_trials, pareto_front
from app.figures import palette
from app.figures.figure import Cell, Figure, FigureTable, linear_axis, plot
from app.results.captions import join_first
from app.results.figures.scatter_points import LAMBDA_AXIS_TITLE
from app.results.labels import METRIC_AXES, MetricAxis
from app.results.run_table import setting_of
from isoscope.core.formatting import number, plural, short

MAX_TICKS = 12
NO_TRIAL = "The first point appears here when the first trial has finished with every seed."
HEADS = ["trial", "lambda", "zeta", "runs"]


class EndedTrial(NamedTuple):
    """A trial whose runs have all ended, none of them pruned, with a performance."""

    trial: Trial
    performance: float
    isotropy: float | None

    @property
    def lam(self) -> float:
        return self.trial.runs[0].lam

    @property
    def cells(self) -> list[Cell]:
        """Return the cells under ``HEADS``. ζ has no effect on the baseline."""
        zeta = self.trial.runs[0].zeta if self.trial.number else None
        return [self.trial.number, self.lam, zeta, len(self.trial.runs)]

    @property
    def symbol(self) -> str:
        return "circle" if self.trial.number else "diamond"

    @property
    def hover_text(self) -> str:
        title = "baseline, λ = 0"
        if self.trial.number:
            title = f"trial {self.trial.number}: λ = {short(self.lam)}, ζ = {short(self.trial.runs[0].zeta)}"
        isotropy_line = f"<br>IsoScore★ {number(self.isotropy)}" if self.isotropy is not None else ""
        return f"{title}<br>performance {number(self.performance, 4)}{isotropy_line}"


def pareto_figure(experiment: Experiment) -> Figure:
    """Return a figure of the trials by isotropy and performance, the Pareto-optimal ones filled."""
    trials = [trial for trial in _list_ended_trials(experiment) if trial.isotropy is not None]
    front_indices = set(pareto_front([(trial.isotropy or 0.0, trial.performance) for trial in trials]))
    rows: list[list[Cell]] = [
        [*trial.cells, trial.isotropy, trial.performance, "yes" if index in front_indices else "no"]
        for index, trial in enumerate(trials)
    ]
    return Figure(
        slug="pareto",
        title="Front of isotropy and performance",
        caption=f"Each point is a trial, averaged over seeds ({len(trials)} in all; diamond: baseline). Filled points, "
        f"joined by the line, are Pareto-optimal ({len(front_indices)}).",
        table=FigureTable([*HEADS, "isoscore_star", "performance", "on_the_front"], rows),
        draw=partial(_draw_front, trials, front_indices, METRIC_AXES[experiment.config.metric]),
        empty=None if trials else NO_TRIAL,
    )


def search_history(experiment: Experiment) -> Figure:
    metric_axis = METRIC_AXES[experiment.config.metric]
    trials = _list_ended_trials(experiment)
    best_scores = list(accumulate((trial.performance for trial in trials), max))
    rows: list[list[Cell]] = [
        [*trial.cells, trial.performance, best_score] for trial, best_score in zip(trials, best_scores, strict=True)
    ]
    n_pruned = sum(trial.pruned for trial in group_trials(experiment.runs))
    pruned_note = f" {plural(n_pruned, 'trial')} pruned and not drawn." if n_pruned else ""
    return Figure(
        slug="search-history",
        title="History of the search",
        caption=f"{metric_axis.title} of {plural(len(trials), 'trial')} as means over seeds, number 0 the baseline, "
        f"and the best so far as steps.{pruned_note}",
        table=FigureTable([*HEADS, "performance", "best_so_far"], rows),
        draw=partial(_draw_history, trials, best_scores, metric_axis),
        empty=None if trials else NO_TRIAL,
    )


def search_plane(experiment: Experiment) -> Figure:
    """Return a figure of the performance of trials by λ and ζ. Large values are dark."""
    metric_axis = METRIC_AXES[experiment.config.metric]
    trials = [ended_trial for ended_trial in _list_ended_trials(experiment) if ended_trial.trial.number != 0]
    scores = [trial.performance for trial in trials]
    shade_note = f" Light is {number(min(scores))}, dark {number(max(scores))}." if trials else ""
    return Figure(
        slug="search-plane",
        title="λ and ζ by performance",
        caption=f"{plural(len(trials), 'trial')} without the baseline, colored by {metric_axis.title}.{shade_note}",
        table=FigureTable([*HEADS, "performance"], [[*trial.cells, trial.performance] for trial in trials]),
        draw=lambda: plot(
            [
                _marker_trace(
                    trials,
                    [trial.lam for trial in trials],
                    [trial.trial.runs[0].zeta for trial in trials],
                    size=12,
                    color=scores,
                    colorscale=palette.COLORSCALE,
                    showscale=False,
                    line={"width": 1, "color": palette.QUIET},
                )
            ],
            xaxis={"title": {"text": LAMBDA_AXIS_TITLE}},
            yaxis={"title": {"text": "ζ"}},
        ),
        empty=None if trials else NO_TRIAL,
    )


def _list_ended_trials(experiment: Experiment) -> list[EndedTrial]:
    return [
        EndedTrial(trial, trial.performance, trial.isotropy)
        for trial in group_trials(experiment.runs)
        if not trial.is_unfinished and not trial.pruned and trial.performance is not None
    ]


def _marker_trace(
    trials: Sequence[EndedTrial], x: Sequence[float | None], y: Sequence[float], **marker: Any
) -> go.Scatter:
    return go.Scatter(
        x=list(x),
        y=list(y),
        mode="markers",
        marker=marker,
        text=[trial.hover_text for trial in trials],
        hovertemplate="%{text}<extra></extra>",
    )


def _draw_front(trials: Sequence[EndedTrial], front_indices: set[int], metric_axis: MetricAxis) -> go.Figure:
    front_trials = sorted((trials[index] for index in front_indices), key=lambda trial: trial.isotropy or 0.0)
    scores = [trial.performance for trial in trials]
    line = go.Scatter(
        x=[trial.isotropy for trial in front_trials],
        y=[trial.performance for trial in front_trials],
        mode="lines",
        line={"color": palette.MAIN, "width": 1.4, "shape": "vh"},
        hoverinfo="skip",
    )
    points = _marker_trace(
        trials,
        [trial.isotropy for trial in trials],
        scores,
        size=11,
        color=[palette.lambda_color(trial.lam) for trial in trials],
        symbol=[trial.symbol + ("" if index in front_indices else "-open") for index, trial in enumerate(trials)],
        line={"width": 1.6},
    )
    return plot(
        [line, points],
        xaxis={"title": {"text": "IsoScore★ (1 is isotropic)"}},
        yaxis=linear_axis(metric_axis.title, scores, (metric_axis.low, metric_axis.high)),
    )


def _draw_history(trials: Sequence[EndedTrial], best_scores: Sequence[float], metric_axis: MetricAxis) -> go.Figure:
    numbers = [ended_trial.trial.number for ended_trial in trials]
    scores = [trial.performance for trial in trials]
    best_steps = go.Scatter(
        x=numbers,
        y=list(best_scores),
        mode="lines",
        line={"color": palette.MAIN, "width": 1.6, "shape": "hv"},
        hovertemplate="best so far %{y:.4g}<extra></extra>",
    )
    colors = [palette.lambda_color(trial.lam) for trial in trials]
    points = _marker_trace(trials, numbers, scores, size=9, color=colors, symbol=[trial.symbol for trial in trials])
    return plot(
        [best_steps, points],
        xaxis={"title": {"text": "Trial"}, "dtick": max(1, ceil(max(numbers, default=1) / MAX_TICKS))},
        yaxis=linear_axis(metric_axis.title, scores, (metric_axis.low, metric_axis.high)),
    )


class BestTrials(NamedTuple):
    """The trials with the largest mean performance, without the baseline: several if they tie."""

    names: str
    """The regularizer, λ and ζ of each."""
    performance: float


class SearchOutcome(NamedTuple):
    """The progress of a search, and its best trials."""

    settings: Search
    n_begun: int
    n_scored: int
    """Trials with a performance, without the baseline."""
    n_pruned: int
    baseline_performance: float | None
    best: BestTrials | None
    """None until a trial has a performance."""
    beats_baseline: bool
    """Whether the best trial beats the baseline, or the baseline has no performance."""
    searches_zeta: bool


def read_outcome(experiment: Experiment) -> SearchOutcome | None:
    """Return the outcome of an experiment's search so far; None if the experiment is not a search."""
    if experiment.study is None:
        return None
    trials = group_trials(experiment.runs)
    scored_trials = [
        (trial.performance, trial) for trial in trials[1:] if trial.performance is not None and not trial.is_unfinished
    ]
    best = None
    if scored_trials:
        best_performance = max(performance for performance, _ in scored_trials)
        names = []
        for run in (trial.runs[0] for performance, trial in scored_trials if performance == best_performance):
            zeta = setting_of(run, ()).zeta
            zeta_words = f", ζ = {zeta:g}" if zeta is not None else ""
            names.append(describe_regularizer(run.regularizer, run.lam) + zeta_words)
        best = BestTrials(join_first(names), best_performance)
    baseline_performance = trials[0].performance if trials else None
    return SearchOutcome(
        settings=experiment.study,
        n_begun=len(trials) - 1,
        n_scored=len(scored_trials),
        n_pruned=sum(trial.pruned for trial in trials),
        baseline_performance=baseline_performance,
        best=best,
        beats_baseline=best is not None and (baseline_performance is None or best.performance > baseline_performance),
        searches_zeta=experiment.study.zeta_low < experiment.study.zeta_high,
    )
