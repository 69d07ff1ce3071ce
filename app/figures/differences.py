"""Every setting against λ = 0, with the intervals that its verdict agrees with."""

from collections.abc import Sequence
from functools import partial

import plotly.graph_objects as go

from app.figures import legend, palette
from app.figures.figure import Figure, Table, plain, plot
from app.results.conclusion.comparisons import Comparison
from app.results.conclusion.verdict_words import interval, signed
from app.results.metrics import SCALES
from app.results.points import empty
from app.results.statistics.verdict import Verdict
from app.results.sweep import Sweep
from isoscope.core.formatting import count, plural

LONGEST_NAME = 40
MOST = 60
"""Settings that one plot shows; the table has all."""
COLUMNS = [
    "verdict", "difference", "low", "high", "p", "p_adjusted", "comparisons", "error_of", "seeds", "rows",
    "p_exact", "p_exact_holm",
]  # fmt: skip


def differences(sweep: Sweep, found: Sequence[Comparison], metric: str) -> Figure:
    """Return mean differences in performance with simultaneous 95% intervals, one row a setting."""
    return Figure(
        slug="differences",
        title="Difference from λ = 0",
        caption=_caption(found),
        table=Table([*sweep.columns, *COLUMNS], [[*sweep.cells(one.setting), *_cells(one)] for one in found]),
        draw=partial(_draw, sweep, found[:MOST], metric),
        empty=None if found else _empty(sweep),
    )


def _empty(sweep: Sweep) -> str:
    waits = any(not run.status.final for run in sweep.runs)
    return empty(sweep) if waits else "No setting has a run at λ = 0 with the same seed to be compared with."


def _caption(found: Sequence[Comparison]) -> str:
    if not found:
        return ""
    several = max(one.judged.comparisons for one in found)
    at_once = f", simultaneous over {count(several)} comparisons" if several > 1 else ""
    bars = f"Bars are 95% intervals{at_once}: a bar that excludes 0 is a verdict."
    few = [one for one in found if one.judged.low is None]
    lacking = f" {plural(len(few), 'setting')} without a bar: too few seeds." if few else ""
    cut = f" The first {MOST} of {count(len(found))} settings are drawn." if len(found) > MOST else ""
    return bars + lacking + cut


def _cells(one: Comparison) -> list[str | float | None]:
    judged = one.judged
    return [
        judged.verdict.value, one.estimate, judged.low, judged.high, judged.p, judged.p_adjusted, judged.comparisons,
        one.method.value, len(one.seeds), one.rows, one.flips.p, one.p_holm,
    ]  # fmt: skip


def _draw(sweep: Sweep, found: Sequence[Comparison], metric: str) -> go.Figure:
    places = list(range(len(found)))
    decided = [one.judged.verdict in (Verdict.BETTER, Verdict.WORSE) for one in found]
    return plot(
        [
            go.Scatter(
                x=[one.estimate],
                y=[place],
                mode="markers",
                marker={
                    "color": legend.colour(sweep, one.setting),
                    "size": 11,
                    "symbol": "circle" if of_one else "circle-open",
                    "line": {"width": 2},
                },
                error_x=_bar(one),
                hovertext=_hover(one),
                hoverinfo="text",
            )
            for place, one, of_one in zip(places, found, decided, strict=True)
        ],
        shapes=[{"type": "line", "x0": 0, "x1": 0, "yref": "paper", "y0": 0, "y1": 1,
                 "line": {"color": palette.QUIET, "dash": "dot", "width": 1}, "layer": "below"}],
        xaxis={"title": {"text": f"Difference in {SCALES[metric].title} from λ = 0"}},
        yaxis={"tickvals": places, "ticktext": [plain(one.label, LONGEST_NAME) for one in found],
               "range": [len(found) - 0.5, -0.5], "ticks": "", "showgrid": False},
    )  # fmt: skip


def _bar(one: Comparison) -> dict[str, object]:
    if one.judged.high is None:
        return {"visible": False}
    half = one.judged.high - one.estimate
    return {"type": "data", "array": [half], "color": palette.QUIET, "thickness": 2, "width": 5}


def _hover(one: Comparison) -> str:
    judged = one.judged
    told = interval(judged.low, judged.high) if judged.low is not None and judged.high is not None else "no interval"
    size = plural(len(one.seeds), "seed") + (f" × {plural(one.rows, 'row')}" if one.rows is not None else "")
    return f"{plain(one.label, LONGEST_NAME)}: {judged.verdict.value}<br>{signed(one.estimate)} {told}<br>{size}"
