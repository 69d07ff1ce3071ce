"""The trivial predictor in figures: its line, and the runs that do no better."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import plotly.graph_objects as go

from app.db.models import Run
from app.db.trivial import learned_nothing, trivial_predictor, trivial_score
from app.figures import palette
from app.figures.figure import Cell, plain
from app.results.setting import Setting
from app.results.sweep import Sweep
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
    nothing: Mapping[Setting, Sequence[tuple[Run, str]]]
    """Runs that learned nothing, with the reason of each, by setting."""

    @classmethod
    def of(cls, sweep: Sweep, runs: Sequence[Run]) -> "Trivial":
        """Read the rows of runs. Where their trivial predictors differ, the best of them is the level to beat."""
        known = [(score, run) for run in runs if (score := trivial_score(run)) is not None]
        score, best = max(known, key=lambda one: one[0], default=(None, None))
        predictor = "" if best is None else trivial_predictor(best)
        nothing: dict[Setting, list[tuple[Run, str]]] = {}
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
            told = f" The trivial predictor (dashed line) scores {number(self.score)}: {self.predictor}."
        runs = [(run, why) for of_one in self.nothing.values() for run, why in of_one]
        if not runs:
            return told
        named = ", ".join(f"{sweep.label(sweep.setting(run))} seed {run.seed}" for run, _ in runs[:MOST_NAMED])
        more = f" and {count(len(runs) - MOST_NAMED)} more" if len(runs) > MOST_NAMED else ""
        mark = "a cross marks its setting" if len(self.nothing) == 1 else "crosses mark their settings"
        return f"{told} {plural(len(runs), 'run')} learned nothing ({mark}): {named}{more}. {runs[0][1]}"

    def words(self, setting: Setting) -> str:
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
