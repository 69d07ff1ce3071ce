"""How the last layer changes while a sweep trains, and its k-th anisotropy late in training."""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any

import plotly.graph_objects as go

from app.db.models import Run
from app.db.models.runs import Looks
from app.figures import legend
from app.figures.axes import STEP_AXIS
from app.figures.figure import Cell, Figure, Table, plain, plot
from app.figures.late import LAST_PART, late_mean
from app.figures.layer_measures import SHARES, slug_of, title_of
from app.figures.points import averaged, cells, finished, how_many
from app.figures.setting import Setting
from app.figures.sweep import Sweep
from app.statistics.estimate import Estimate, estimate
from isotropy.catalog import MEASURES


def while_training(sweep: Sweep, looks: Mapping[str, Looks], measure: str) -> Figure:
    """A measure of the last layer over steps, the mean over seeds of each setting. ``looks`` are by run."""
    lines = {
        setting: points
        for setting, runs in sweep.by_setting(sweep.runs).items()
        if (points := _means([_last(looks.get(run.id, ()), measure) for run in runs]))
    }
    sizes = [found.n for points in lines.values() for _, found in points]
    return Figure(
        slug="watched",
        title=f"{title_of(measure)} during training",
        caption=f"Of the last layer, on the tokens of the same few validation rows each time; means over seeds "
        f"({how_many(sizes)}). Range: {MEASURES[slug_of(measure)].range}."
        if lines
        else "",
        table=Table(
            [*sweep.columns, "step", "runs", f"{measure}_mean", "ci95_half_width"],
            [
                [*sweep.cells(setting), step, found.n, *cells(found)]
                for setting, points in lines.items()
                for step, found in points
            ],
        ),
        draw=partial(_draw_lines, sweep, lines, title_of(measure)),
        empty=None if lines else "The lines begin here at the first look at the layers of a run.",
    )


def late_anisotropy(sweep: Sweep, looks: Mapping[str, Looks]) -> Figure:
    """k-th anisotropy of the last layer, raw and centred, averaged over the last part of training."""
    found = {
        setting: shares for setting, runs in sweep.by_setting(finished(sweep)).items() if (shares := _late(runs, looks))
    }
    sizes = [one.n for shares in found.values() for one in shares.values()]
    shares_of = [share.removeprefix("anisotropy_") for share in SHARES]
    return Figure(
        slug="late-anisotropy",
        title="k-th anisotropy late in training",
        caption=f"Of the last layer, averaged over the looks at it in the last {100 * LAST_PART:.0f} % of training. "
        f"{averaged(sizes)} Raw: with the mean of the points."
        if found
        else "",
        table=Table(
            [*sweep.columns, "runs", *shares_of, *(f"{share}_ci95_half_width" for share in shares_of)],
            [[*sweep.cells(setting), *_numbers([shares.get(share) for share in SHARES])]
             for setting, shares in found.items()],
        ),
        draw=partial(_draw_shares, sweep, found),
        empty=None if found else "The averages appear here when the first run has ended.",
    )  # fmt: skip


def _last(looks: Looks, measure: str) -> list[tuple[int, float]]:
    """The values of the last layer, where it has one."""
    return [
        (step, value) for step, layers in looks if (values := layers.get(measure)) and (value := values[-1]) is not None
    ]


def _means(runs: Sequence[Sequence[tuple[int, float]]]) -> list[tuple[int, Estimate]]:
    """The mean over runs at every step at which some of them were looked at."""
    at: dict[int, list[float]] = {}
    for step, value in chain.from_iterable(runs):
        at.setdefault(step, []).append(value)
    return [(step, estimate(values)) for step, values in sorted(at.items())]


def _late(runs: Sequence[Run], looks: Mapping[str, Looks]) -> dict[str, Estimate]:
    """Each share of the last layer: the mean over a run's late looks, and of these means over runs."""
    means: dict[str, list[float]] = {}
    for seen in (looks[run.id] for run in runs if looks.get(run.id)):
        for share in SHARES:
            if (late := late_mean(_last(seen, share), seen[-1][0])) is not None:
                means.setdefault(share, []).append(late)
    return {share: estimate(values) for share, values in means.items()}


def _draw_lines(sweep: Sweep, lines: Mapping[Setting, Sequence[tuple[int, Estimate]]], title: str) -> go.Figure:
    return plot(
        [
            go.Scatter(
                x=[step for step, _ in points],
                y=[found.mean for _, found in points],
                mode="lines" if len(points) > 1 else "markers",
                line={"color": legend.colour(sweep, setting), "dash": legend.dash(sweep, setting), "width": 1.8},
                **legend.entry(sweep, setting, list(lines)),
                hovertemplate=f"{plain(sweep.label(setting), 120)}<br>step %{{x:,}}: %{{y:.4~g}}<extra></extra>",
            )
            for setting, points in lines.items()
        ],
        showlegend=True,
        xaxis=STEP_AXIS,
        yaxis={"title": {"text": title}},
    )


def _numbers(shares: Sequence[Estimate | None]) -> list[Cell]:
    """How many runs, all means, and the half-widths of all intervals."""
    return [
        max(share.n for share in shares if share),
        *(share.mean if share else None for share in shares),
        *(share.half_width if share else None for share in shares),
    ]


def _draw_shares(sweep: Sweep, found: Mapping[Setting, Mapping[str, Estimate]]) -> go.Figure:
    """Raw to the left, centred to the right, on one scale."""
    sides = (("x", SHARES[:3]), ("x2", SHARES[3:]))
    return plot(
        [
            go.Scatter(
                _line_of([shares.get(share) for share in side]),
                xaxis=axis,
                line={"color": legend.colour(sweep, setting), "dash": legend.dash(sweep, setting), "width": 1.6},
                marker={"symbol": legend.symbol(sweep, setting), "size": 7},
                hovertemplate=f"{plain(sweep.label(setting), 120)}<br>k = %{{x}}: %{{y:.3~g}}<extra></extra>",
                **legend.entry(sweep, setting, list(found)) | ({} if axis == "x" else {"showlegend": False}),
            )
            for setting, shares in found.items()
            for axis, side in sides
        ],
        showlegend=True,
        xaxis={"title": {"text": "k, raw"}, "dtick": 1, "domain": [0, 0.47]},
        xaxis2={"title": {"text": "k, centred"}, "dtick": 1, "domain": [0.53, 1], "anchor": "y"},
        yaxis={"title": {"text": "k-th anisotropy"}, "rangemode": "tozero"},
    )


def _line_of(shares: Sequence[Estimate | None]) -> dict[str, Any]:
    """The means by k, with their intervals."""
    half_widths = [share.half_width if share else None for share in shares]
    return {
        "x": list(range(1, len(shares) + 1)),
        "y": [share.mean if share else None for share in shares],
        "error_y": {"array": half_widths, "thickness": 1.2, "width": 3},
        "mode": "lines+markers",
    }
