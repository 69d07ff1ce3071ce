"""The finished runs of a sweep by setting, and beside them the trivial predictor that they have to beat."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import plotly.graph_objects as go

from app.db.learning import learned_nothing, trivial_predictor, trivial_score
from app.db.run_rows import AnyRun
from app.figures import palette
from app.figures.figure import Cell, plain
from app.results.statistics.estimate import Error, Estimate, by_seed, estimate
from app.results.sweep import Setting, Sweep
from isoscope.core.formatting import count, number, plural

MOST_NAMED = 3
LONGEST_PREDICTOR = 80
CROSS = 15
FARTHEST = 2.0
"""Of the range of the points: a line that lies farther away is told at the edge, so that points keep their room."""

WORDS_WIDE, WORDS_HIGH = 0.4, 0.1
"""Shares of a plot that the words on the line take, at one of its ends."""


class Trivial(NamedTuple):
    """The trivial predictor of the runs of a figure, and which of them learned nothing."""

    score: float | None
    """None where no run tells it: runs of an earlier version, and of scripts without predictions."""
    predictor: str
    nothing: Mapping[Setting, Sequence[tuple[AnyRun, str]]]
    """Runs that learned nothing, with the reason of each, by setting."""

    @classmethod
    def from_runs(cls, sweep: Sweep, runs: Sequence[AnyRun]) -> "Trivial":
        """Read the rows of runs. Where their trivial predictors differ, the best of them is the level to beat."""
        known = [(score, run) for run in runs if (score := trivial_score(run)) is not None]
        score, best = max(known, key=lambda one: one[0], default=(None, None))
        predictor = "" if best is None else trivial_predictor(best)
        nothing: dict[Setting, list[tuple[AnyRun, str]]] = {}
        for run in runs:
            if (why := learned_nothing(run)) is not None:
                nothing.setdefault(sweep.setting(run), []).append((run, why))
        return cls(score, predictor, nothing)

    @property
    def columns(self) -> list[str]:
        """Heads of the columns that it adds to a table of settings."""
        return [] if self.score is None and not self.nothing else ["trivial_performance", "runs_that_learned_nothing"]

    def cells(self, setting: Setting) -> list[Cell]:
        """The cells under them."""
        return [self.score, len(self.nothing.get(setting, ()))] if self.columns else []

    def caption(self, sweep: Sweep) -> str:
        """What a caption says of it: the level, and which runs learned nothing."""
        told = ""
        if self.score is not None:
            told = f" The trivial predictor (dashed line or arrow) scores {number(self.score)}: {self.predictor}."
        runs = [(run, why) for of_one in self.nothing.values() for run, why in of_one]
        if not runs:
            return told
        named = ", ".join(f"{sweep.label(sweep.setting(run))} seed {run.seed}" for run, _ in runs[:MOST_NAMED])
        more = f" and {count(len(runs) - MOST_NAMED)} more" if len(runs) > MOST_NAMED else ""
        mark = "a cross marks its setting" if len(self.nothing) == 1 else "crosses mark their settings"
        return f"{told} {plural(len(runs), 'run')} learned nothing ({mark}): {named}{more}. {runs[0][1]}"

    def describe(self, setting: Setting) -> str:
        """What pointing at a setting says of it, with a line break before it; empty where its runs learned."""
        runs = self.nothing.get(setting, ())
        if not runs:
            return ""
        return f"<br>learned nothing: {plural(len(runs), 'seed')}<br>{plain(runs[0][1], LONGEST_PREDICTOR)}"

    def widened(self, found: list[float]) -> list[float]:
        """The range of an axis of performance, wide enough for the line where that is near."""
        low, high = found
        if self.score is None or not self._near(found):
            return found
        room = 0.08 * (high - low)
        return [min(low, self.score - room), max(high, self.score + room)]

    def line(
        self,
        found: list[float],
        axis: str = "y",
        *,
        across_range: Sequence[float] = (0.0, 1.0),
        places: Sequence[tuple[float, float]] = (),
    ) -> dict[str, Any]:
        """The shapes and annotations that draw it across a plot whose axis of performance has this range.

        Its words stand at the end of the line where fewer of the places lie: x, in a range of its own, and performance.
        """
        if self.score is None:
            return {"shapes": [], "annotations": []}
        low, high = found
        inside = low <= self.score <= high
        words = f"trivial predictor {number(self.score)}"
        across = "x" if axis == "y" else "y"
        edge = min(max(self.score, low), high)
        arrow = "" if inside else "↓ " if self.score < low else "↑ "
        if axis == "x":
            arrow = arrow.replace("↓", "←").replace("↑", "→")
        side = _freer_side([x for x, y in places if abs(y - edge) <= WORDS_HIGH * (high - low)], across_range)
        place: dict[str, Any] = (
            {
                "x": float(side == "right"),
                "xref": "paper",
                "xanchor": side,
                "y": edge,
                "yanchor": "top" if edge == high else "bottom",
            }
            if axis == "y"
            else {"y": 1, "yref": "paper", "yanchor": "bottom", "x": edge, "xanchor": "center"}
        )
        style = {"width": 1.5, "dash": "dash", "color": palette.MARKED}
        shape = {"type": "line", f"{across}ref": "paper", f"{across}0": 0, f"{across}1": 1, f"{axis}0": self.score,
                 f"{axis}1": self.score, "line": style, "layer": "below"}  # fmt: skip
        note = {**place, "text": arrow + words, "showarrow": False, "font": {"size": 12, "color": palette.MARKED}}
        return {"shapes": [shape] if inside else [], "annotations": [note]}

    def crosses(self, places: Sequence[tuple[Setting, float, float]]) -> list[go.Scatter]:
        """A cross over each setting of which a run learned nothing, at its place."""
        marked = [(x, y) for setting, x, y in places if setting in self.nothing]
        if not marked:
            return []
        return [
            go.Scatter(
                x=[x for x, _ in marked],
                y=[y for _, y in marked],
                mode="markers",
                marker={"symbol": "x-thin", "size": CROSS, "line": {"width": 2.5, "color": palette.MARKED}},
                showlegend=False,
                hoverinfo="skip",
            )
        ]

    def _near(self, found: list[float]) -> bool:
        low, high = found
        return self.score is not None and low - FARTHEST * (high - low) <= self.score <= high + FARTHEST * (high - low)


def _freer_side(near: Sequence[float], across_range: Sequence[float]) -> str:
    """The side on which fewer of the x lie; the right one where both have as many."""
    left, right = across_range
    width = WORDS_WIDE * (right - left)
    return "left" if sum(x > right - width for x in near) > sum(x < left + width for x in near) else "right"


@dataclass(frozen=True)
class Point:
    """The finished runs of one setting, and the means over their seeds, of which each counts once."""

    setting: Setting
    runs: list[AnyRun]
    performance: Estimate
    isotropy: Estimate | None


def points_of(sweep: Sweep, runs: Sequence[AnyRun], error: Error = Error.CI95) -> list[Point]:
    """Runs that have a performance, one point for all that varies but the seed, by λ."""
    return [_point(setting, alike, error) for setting, alike in sweep.by_setting(runs).items()]


def scored(sweep: Sweep) -> list[AnyRun]:
    """The finished runs that have a performance."""
    return [run for run in sweep.finished if run.performance is not None]


def unscored(sweep: Sweep) -> str:
    """How many finished runs have no performance, and the reason of the first; empty where all have one."""
    left_out = [run for run in sweep.finished if run.performance is None]
    if not left_out:
        return ""
    reason = f" {left_out[0].performance_reason}" if left_out[0].performance_reason else ""
    return f" Not drawn, because performance is undefined: {plural(len(left_out), 'run')}.{reason}"


def flattered(what: str, labels: Sequence[str]) -> str:
    """What is done with settings that a study gave up a run of, and why; empty where there is none."""
    if not labels:
        return ""
    return (
        f" {what}, because the study pruned some of their runs, and the finished ones overstate them: {named(labels)}."
    )


def given_up(sweep: Sweep, what: str) -> str:
    """The same of all such settings of a sweep."""
    return flattered(what, [sweep.label(setting) for setting in sweep.settings if setting in sweep.given_up])


def named(labels: Sequence[str]) -> str:
    """The first few of them, and how many there are besides."""
    more = f" and {count(len(labels) - MOST_NAMED)} more" if len(labels) > MOST_NAMED else ""
    return "; ".join(labels[:MOST_NAMED]) + more


def empty(sweep: Sweep) -> str:
    """What there is to say while there is no point."""
    if told := unscored(sweep):
        return told.strip()
    if all(run.status.final for run in sweep.runs):
        return "No run has finished, so there is nothing to plot."
    return "The first point appears here when the first run has finished."


def cells(found: Estimate | None) -> list[float | None]:
    """A mean and its error as a table has them."""
    return [found.mean, found.half_width] if found else [None, None]


def how_many(sizes: Sequence[int]) -> str:
    """How many seeds are behind each mean: n = 5, or n = 3 to 5."""
    low, high = min(sizes), max(sizes)
    return f"n = {low}" if low == high else f"n = {low} to {high}"


def averaged(sizes: Sequence[int], error: Error = Error.CI95) -> str:
    """What stands behind what is drawn, as a sentence: single runs, or means and their error bars."""
    if max(sizes) == 1:
        return "Each is one run (n = 1 seed); an interval needs two seeds or more."
    return f"Means over seeds ({how_many(sizes)}) with {error.name_in_full}s."


def _point(setting: Setting, runs: list[AnyRun], error: Error) -> Point:
    performance = by_seed((run.seed, run.performance) for run in runs if run.performance is not None)
    isotropy = by_seed((run.seed, run.isoscore_star) for run in runs if run.isoscore_star is not None)
    return Point(
        setting,
        runs,
        estimate([*performance.values()], error),
        estimate([*isotropy.values()], error) if isotropy else None,
    )
