"""How the last layer changes while a sweep trains, and its k-th anisotropy late in training."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import plotly.graph_objects as go

from app.db.models import Run
from app.db.models.runs import Looks
from app.figures import bands, legend
from app.figures.axes import STEP_AXIS
from app.figures.bands import Means
from app.figures.figure import Cell, Figure, Table, plot
from app.results.captions import by_scripts, texts, to_come
from app.results.metrics import SHARES, is_of_texts, level_of, slug_of, title_of
from app.results.points import averaged, cells, finished
from app.results.setting import Setting
from app.results.statistics.estimate import Estimate, estimate
from app.results.statistics.repeats import LAST_PART, by_seed, tail_mean
from app.results.sweep import Sweep
from isotropy.catalog import MEASURES

SHARES_OF = tuple(share.removeprefix("anisotropy_") for share in SHARES)


def while_training(sweep: Sweep, looks: Mapping[str, Looks], measure: str, sample: str = "") -> Figure:
    """A measure of the last layer over steps, the mean over seeds of each setting. ``looks`` are by run.

    ``sample`` says what part of the looks is here, where that is not all.
    """
    lines = {
        setting: points
        for setting, runs in sweep.by_setting(sweep.runs).items()
        if (points := bands.over_seeds((run.seed, _last(looks.get(run.id, ()), measure)) for run in runs))
    }
    return Figure(
        slug="watched",
        title=f"{title_of(measure)} during training",
        caption=_caption(sweep, lines, measure) + sample if lines else "",
        table=Table(
            [*sweep.columns, "step", "seeds", f"{measure}_mean", "ci95_half_width"],
            [
                [*sweep.cells(setting), step, found.n, *cells(found)]
                for setting, points in lines.items()
                for step, found in points
            ],
        ),
        draw=partial(_draw_lines, sweep, lines, title_of(measure)),
        empty=None
        if lines
        else to_come(
            sweep.runs,
            "The lines begin at the first measurement of a run's layers.",
            "No run measured this during training.",
        ),
    )


def late_anisotropy(sweep: Sweep, looks: Mapping[str, Looks], sample: str = "") -> Figure:
    """k-th anisotropy of the last layer, raw and centred, averaged over the last part of training.

    ``sample`` says what part of the looks is here, where that is not all.
    """
    found = {
        setting: shares for setting, runs in sweep.by_setting(finished(sweep)).items() if (shares := _late(runs, looks))
    }
    sizes = [one.n for shares in found.values() for one in shares.values()]
    intervals = SHARES_OF if max(sizes, default=0) > 1 else ()
    return Figure(
        slug="late-anisotropy",
        title="k-th anisotropy late in training",
        caption=f"Of the last layer, averaged over the measurements in the last {100 * LAST_PART:.0f} % of training. "
        f"{averaged(sizes)} Raw: with the mean of the points; centred: without it.{sample}"
        if found
        else "",
        table=Table(
            [*sweep.columns, *SHARES_OF, *(f"{one}_ci95_half_width" for one in intervals),
             *(f"{one}_seeds" for one in SHARES_OF)],
            [[*sweep.cells(setting), *_numbers([shares.get(share) for share in SHARES], intervals=bool(intervals))]
             for setting, shares in found.items()],
        ),
        draw=partial(_draw_shares, sweep, found),
        empty=None
        if found
        else to_come(
            sweep.runs,
            "The averages appear when the first run has ended.",
            "No run measured anisotropy during training.",
        ),
    )  # fmt: skip


def _last(looks: Looks, measure: str) -> list[tuple[int, float]]:
    """The values of the last layer, where it has one."""
    return [
        (step, value) for step, layers in looks if (values := layers.get(measure)) and (value := values[-1]) is not None
    ]


def _caption(sweep: Sweep, lines: Means, measure: str) -> str:
    points = "mean vectors, one of each text," if is_of_texts(measure) else "tokens"
    launched = f"of the {points} of a few {texts(sweep.runs)}, the same at every step{level_of(measure)}"
    return (
        f"The last layer, {by_scripts(sweep.runs, launched)}. "
        f"{averaged(bands.sizes(lines))} Range: {MEASURES[slug_of(measure)].range}."
    )


def _late(runs: Sequence[Run], looks: Mapping[str, Looks]) -> dict[str, Estimate]:
    """Each share of the last layer: the mean over a run's late looks, and of these means over runs."""
    means: dict[str, list[tuple[int, float]]] = {}
    for run, seen in ((run, looks[run.id]) for run in runs if looks.get(run.id)):
        for share in SHARES:
            if (late := tail_mean(_last(seen, share), seen[-1][0])) is not None:
                means.setdefault(share, []).append((run.seed, late))
    return {share: estimate([*by_seed(values).values()]) for share, values in means.items()}


def _draw_lines(sweep: Sweep, lines: Means, title: str) -> go.Figure:
    return plot(
        bands.traces(sweep, lines, bands=bands.banded(lines)),
        showlegend=True,
        xaxis=STEP_AXIS,
        yaxis={"title": {"text": title}},
    )


def _numbers(shares: Sequence[Estimate | None], *, intervals: bool) -> list[Cell]:
    """All means, the half-widths of all intervals where some setting has one, and of how many seeds each mean is."""
    return [
        *(share.mean if share else None for share in shares),
        *((share.half_width if share else None for share in shares) if intervals else ()),
        *(share.n if share else 0 for share in shares),
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
                hovertemplate=f"{legend.whole(sweep, setting)}<br>k = %{{x}}: %{{y:.3~g}}<extra></extra>",
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
