"""The trivial predictor that runs have to beat: its line, and crosses on settings with runs that learned nothing."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from app.db.learning import no_learning_note, trivial_predictor, trivial_score
from app.db.run_rows import AnyRun
from app.figures import palette
from app.figures.figure import Cell, Trace, escape_text
from app.results.run_table import RunTable, Setting
from isoscope.core.formatting import number, plural

MAX_REASON_LENGTH = 80
CROSS_SIZE = 15
# Maximum distance of the line, as a multiple of the points' range. A farther line is only in the legend, to leave room.
MAX_DISTANCE = 2.0


class TrivialPredictor(NamedTuple):
    """The trivial predictor of the runs of a figure, and which of them learned nothing."""

    score: float | None
    """Its performance; None if no run stores it, such as runs of earlier versions or of scripts without predictions."""
    description: str
    """What it predicts, in words."""
    no_learning_notes: Mapping[Setting, Sequence[str]]
    """By setting, why its runs learned nothing: a sentence for each such run."""
    has_hollow_points: bool = False
    """Whether some settings have a hollow point instead of a cross."""

    @classmethod
    def from_runs(cls, table: RunTable, runs: Sequence[AnyRun]) -> "TrivialPredictor":
        """Return the trivial predictor of runs; if they have different ones, the one with the highest score."""
        scored_runs = [(score, run) for run in runs if (score := trivial_score(run)) is not None]
        score, best_run = max(scored_runs, key=lambda scored: scored[0], default=(None, None))
        notes: dict[Setting, list[str]] = {}
        for run in runs:
            if (note := no_learning_note(run)) is not None:
                notes.setdefault(table.setting(run), []).append(note)
        return cls(score, "" if best_run is None else trivial_predictor(best_run), notes)

    @property
    def heads(self) -> list[str]:
        """Return column heads; empty if there is neither a score nor a run that learned nothing."""
        has_content = self.score is not None or self.no_learning_notes
        return ["trivial_performance", "runs_that_learned_nothing"] if has_content else []

    def cells(self, setting: Setting) -> list[Cell]:
        return [self.score, len(self.no_learning_notes.get(setting, ()))] if self.heads else []

    def without_crosses(self, hollow_settings: Collection[Setting]) -> "TrivialPredictor":
        """Return a copy without crosses on these settings, whose points are hollow instead."""
        notes = {key: value for key, value in self.no_learning_notes.items() if key not in hollow_settings}
        return self._replace(no_learning_notes=notes, has_hollow_points=bool(hollow_settings))

    def caption(self) -> str:
        """Say, after a space, what the line and the crosses stand for; empty if a figure has neither."""
        line = ""
        if self.score is not None:
            line = f" The trivial predictor (dashed line or arrow) scores {number(self.score)}: {self.description}."
        n_runs = sum(map(len, self.no_learning_notes.values()))
        noun = "more run" if self.has_hollow_points else "run"
        crosses = f" Crosses: {plural(n_runs, noun)} learned nothing." if n_runs else ""
        return line + crosses

    def describe(self, setting: Setting) -> str:
        """Return lines for a hover text on a setting's runs that learned nothing; empty if all learned."""
        notes = self.no_learning_notes.get(setting, ())
        if not notes:
            return ""
        return f"<br>learned nothing: {plural(len(notes), 'seed')}<br>{escape_text(notes[0], MAX_REASON_LENGTH)}"

    def widen(self, limits: list[float]) -> list[float]:
        """Return the limits of a performance axis, widened to include the line if it is near."""
        low, high = limits
        reach = MAX_DISTANCE * (high - low)
        if self.score is None or not low - reach <= self.score <= high + reach:
            return limits
        margin = 0.08 * (high - low)
        return [min(low, self.score - margin), max(high, self.score + margin)]

    def line_shapes(self, limits: list[float], axis: str = "y", *, in_legend: bool = True) -> list[dict[str, Any]]:
        """Return the line across a plot as a list of shapes, empty without a score.

        ``axis`` is the axis of performance, "x" or "y". The legend entry of a line beyond its ``limits`` has an arrow.
        """
        if self.score is None:
            return []
        cross_axis, below, above = ("x", "↓ ", "↑ ") if axis == "y" else ("y", "← ", "→ ")
        arrow = ""
        if not limits[0] <= self.score <= limits[1]:
            arrow = below if self.score < limits[0] else above
        return [
            {"type": "line", f"{cross_axis}ref": "paper", f"{cross_axis}0": 0, f"{cross_axis}1": 1,
             f"{axis}0": self.score, f"{axis}1": self.score, "layer": "below", "showlegend": in_legend,
             "legend": "legend2", "name": f"{arrow}trivial predictor {number(self.score)}",
             "line": {"width": 1.5, "dash": "dash", "color": palette.MARKED}}
        ]  # fmt: skip

    def cross_traces(self, points: Sequence[tuple[Setting, float, float]]) -> list[Trace]:
        """Mark each setting with a run that learned nothing by a cross. ``points`` are settings with x and y."""
        crosses = [(x, y) for setting, x, y in points if setting in self.no_learning_notes]
        if not crosses:
            return []
        return [
            Trace(
                x=[x for x, _ in crosses],
                y=[y for _, y in crosses],
                mode="markers",
                marker={"symbol": "x-thin", "size": CROSS_SIZE, "line": {"width": 2.5, "color": palette.MARKED}},
                showlegend=False,
                hoverinfo="skip",
            )
        ]
