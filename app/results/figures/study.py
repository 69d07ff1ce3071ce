"""A search for lambda and zeta: its front, its history, the plane that it searched, and its outcome in words."""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import plotly.graph_objects as go

from app.db.models import Experiment
from app.db.options.regularization import coordinates
from app.db.study import Search, Trial, front_of, trials_of
from app.figures import palette
from app.figures.figure import Cell, Figure, Table, linear_axis, plot
from app.results.labels import SCALES, MetricRange
from app.results.points import named
from app.results.sweep import setting_of
from isoscope.core.formatting import number, plural, short

MOST_TICKS = 12
NOT_YET = "The first point appears here when the first trial has finished with every seed."
COLUMNS = ["trial", "lambda", "zeta", "runs"]


class Tried(NamedTuple):
    """A trial that has come to its end."""

    trial: Trial
    performance: float
    isotropy: float | None

    @property
    def cells(self) -> list[Cell]:
        """Under ``COLUMNS``; the baseline reads no zeta."""
        first = self.trial.runs[0]
        return [self.trial.number, first.lam, first.zeta if self.trial.number else None, len(self.trial.runs)]

    @property
    def hover_text(self) -> str:
        """What a pointer shows."""
        first = self.trial.runs[0]
        name = f"trial {self.trial.number}: λ = {short(first.lam)}, ζ = {short(first.zeta)}"
        isotropy = f"<br>IsoScore★ {number(self.isotropy)}" if self.isotropy is not None else ""
        shown = name if self.trial.number else "baseline, λ = 0"
        return f"{shown}<br>performance {number(self.performance, 4)}{isotropy}"


def pareto(trials: Sequence[Trial], metric: str) -> Figure:
    """Trials by isotropy and performance, those marked that no other exceeds in one without losing in the other."""
    placed = [one for one in _tried(trials) if one.isotropy is not None]
    front = set(front_of([(one.isotropy or 0.0, one.performance) for one in placed]))
    rows: list[list[Cell]] = [
        [*one.cells, one.isotropy, one.performance, "yes" if place in front else "no"]
        for place, one in enumerate(placed)
    ]
    return Figure(
        slug="pareto",
        title="Front of isotropy and performance",
        caption=f"Each point is a trial, averaged over seeds ({len(placed)} in all; diamond: baseline). Filled points, "
        f"joined by the line, are Pareto-optimal ({len(front)}).",
        table=Table([*COLUMNS, "isoscore_star", "performance", "on_the_front"], rows),
        draw=partial(_draw_front, placed, front, SCALES[metric]),
        empty=None if placed else NOT_YET,
    )


def history(trials: Sequence[Trial], metric: str) -> Figure:
    """The performance of each trial, and the best so far."""
    tried = _tried(trials)
    best = [max(one.performance for one in tried[: place + 1]) for place in range(len(tried))]
    rows: list[list[Cell]] = [[*one.cells, one.performance, so_far] for one, so_far in zip(tried, best, strict=True)]
    given_up = sum(trial.pruned for trial in trials)
    lacking = f" {plural(given_up, 'trial')} pruned and not drawn." if given_up else ""
    return Figure(
        slug="search-history",
        title="History of the search",
        caption=f"{SCALES[metric].title} of {plural(len(tried), 'trial')} as means over seeds, number 0 the baseline, "
        f"and the best so far as steps.{lacking}",
        table=Table([*COLUMNS, "performance", "best_so_far"], rows),
        draw=partial(_draw_history, tried, best, SCALES[metric]),
        empty=None if tried else NOT_YET,
    )


def plane(trials: Sequence[Trial], metric: str) -> Figure:
    """Where the trials lie in lambda and zeta, colored by performance."""
    tried = [one for one in _tried(trials) if one.trial.number]
    ends = [f([one.performance for one in tried]) for f in (min, max)] if tried else []
    shades = f" Light is {number(ends[0])}, dark {number(ends[1])}." if tried else ""
    return Figure(
        slug="search-plane",
        title="λ and ζ by performance",
        caption=f"{plural(len(tried), 'trial')} without the baseline, colored by {SCALES[metric].title}.{shades}",
        table=Table([*COLUMNS, "performance"], [[*one.cells, one.performance] for one in tried]),
        draw=partial(_draw_plane, tried),
        empty=None if tried else NOT_YET,
    )


def _tried(trials: Sequence[Trial]) -> list[Tried]:
    ended = [trial for trial in trials if not trial.unended and not trial.pruned]
    return [Tried(one, one.performance, one.isotropy) for one in ended if one.performance is not None]


def _draw_front(placed: Sequence[Tried], front: set[int], scale: MetricRange) -> go.Figure:
    on = sorted((placed[place] for place in front), key=lambda one: one.isotropy or 0.0)
    line = go.Scatter(
        x=[one.isotropy for one in on],
        y=[one.performance for one in on],
        mode="lines",
        line={"color": palette.MAIN, "width": 1.4, "shape": "vh"},
        hoverinfo="skip",
    )
    marks = go.Scatter(
        x=[one.isotropy for one in placed],
        y=[one.performance for one in placed],
        mode="markers",
        marker={
            "size": 11,
            "color": [palette.of_lambda(one.trial.runs[0].lam) for one in placed],
            "symbol": [
                ("diamond" if one.trial.number == 0 else "circle") + ("" if place in front else "-open")
                for place, one in enumerate(placed)
            ],
            "line": {"width": 1.6},
        },
        text=[one.hover_text for one in placed],
        hovertemplate="%{text}<extra></extra>",
    )
    return plot(
        [line, marks],
        xaxis={"title": {"text": "IsoScore★ (1 is isotropic)"}},
        yaxis=linear_axis(scale.title, [one.performance for one in placed], (scale.low, scale.high)),
    )


def _draw_history(tried: Sequence[Tried], best: Sequence[float], scale: MetricRange) -> go.Figure:
    numbers = [one.trial.number for one in tried]
    steps = go.Scatter(
        x=numbers,
        y=list(best),
        mode="lines",
        line={"color": palette.MAIN, "width": 1.6, "shape": "hv"},
        hovertemplate="best so far %{y:.4g}<extra></extra>",
    )
    marks = go.Scatter(
        x=numbers,
        y=[one.performance for one in tried],
        mode="markers",
        marker={
            "size": 9,
            "color": [palette.of_lambda(one.trial.runs[0].lam) for one in tried],
            "symbol": ["diamond" if one.trial.number == 0 else "circle" for one in tried],
        },
        text=[one.hover_text for one in tried],
        hovertemplate="%{text}<extra></extra>",
    )
    return plot(
        [steps, marks],
        xaxis={"title": {"text": "Trial"}, "dtick": -(-max(numbers, default=1) // MOST_TICKS) or 1},
        yaxis=linear_axis(scale.title, [one.performance for one in tried], (scale.low, scale.high)),
    )


def _draw_plane(tried: Sequence[Tried]) -> go.Figure:
    steps = len(palette.SCALE) - 1
    marks = go.Scatter(
        x=[one.trial.runs[0].lam for one in tried],
        y=[one.trial.runs[0].zeta for one in tried],
        mode="markers",
        marker={
            "size": 12,
            "color": [one.performance for one in tried],
            "colorscale": [[i / steps, colour] for i, colour in enumerate(palette.SCALE)],
            "showscale": False,
            "line": {"width": 1, "color": palette.QUIET},
        },
        text=[one.hover_text for one in tried],
        hovertemplate="%{text}<extra></extra>",
    )
    return plot(
        [marks], xaxis={"title": {"text": "λ (below 0 less isotropy, above 0 more)"}}, yaxis={"title": {"text": "ζ"}}
    )


class Best(NamedTuple):
    """The trials with the greatest mean performance, the baseline apart: several where they tie."""

    names: str
    performance: float


class SearchOutcome(NamedTuple):
    """How far a search is, and what it has come to."""

    settings: Search
    asked: int
    tried: int
    """Trials with a performance, the baseline apart."""
    pruned: int
    baseline: float | None
    best: Best | None

    @property
    def better(self) -> bool:
        """Whether the best did better than the baseline, as far as both are known."""
        return self.best is not None and (self.baseline is None or self.best.performance > self.baseline)

    @property
    def of_zeta(self) -> bool:
        """Whether zeta is searched too."""
        return self.settings.zeta_low < self.settings.zeta_high


def outcome_of(experiment: Experiment) -> SearchOutcome | None:
    """What there is to say of the search of an experiment, if it is one."""
    if experiment.study is None:
        return None
    trials = trials_of(experiment.runs)
    found = [(one.performance, one) for one in trials[1:] if one.performance is not None and not one.unended]
    best = None
    if found:
        greatest = max(performance for performance, _ in found)
        best = Best(named([_name(one) for performance, one in found if performance == greatest]), greatest)
    return SearchOutcome(
        experiment.study,
        len(trials) - 1,
        len(found),
        sum(trial.pruned for trial in trials),
        trials[0].performance if trials else None,
        best,
    )


def _name(trial: Trial) -> str:
    first = trial.runs[0]
    zeta = setting_of(first, ()).zeta
    return coordinates(first.regularizer, first.lam) + (f", ζ = {zeta:g}" if zeta is not None else "")
