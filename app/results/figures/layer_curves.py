"""Layers while runs train: measures of the last layer step by step, one measure of all layers as a heat map."""

from collections.abc import Mapping, Sequence
from functools import partial
from statistics import fmean
from typing import Any

import plotly.graph_objects as go

from app.db.models import Run
from app.db.models.runs import Looks
from app.db.run_rows import AnyRun
from app.figures import palette
from app.figures.figure import STEP_AXIS, Cell, Figure, Table, plot
from app.results.figures import legend, sweep_curves
from app.results.figures.sweep_curves import Means
from app.results.labels import SHARES, by_scripts, is_of_texts, level_of, slug_of, texts, title_of, to_come
from app.results.points import averaged, how_many
from app.results.statistics.estimate import LAST_PART, Estimate, Row, by_place, by_seed, estimate, tail_mean
from app.results.sweep import Setting, Sweep
from isoscope.core.formatting import number
from isotropy.catalog import MEASURES

SHARES_OF = tuple(share.removeprefix("anisotropy_") for share in SHARES)


def while_training(sweep: Sweep, looks: Mapping[str, Looks], measure: str, sample: str = "") -> Figure:
    """A measure of the last layer over steps, the mean over seeds of each setting. ``looks`` are by run.

    ``sample`` says what part of the looks is here, where that is not all.
    """
    lines = {
        setting: points
        for setting, runs in sweep.by_setting(sweep.runs).items()
        if (points := sweep_curves.over_seeds((run.seed, _last(looks.get(run.id, ()), measure)) for run in runs))
    }
    return Figure(
        slug="watched",
        title=f"{title_of(measure)} during training",
        caption=_caption(sweep, lines, measure) + sample if lines else "",
        table=sweep_curves.table_of(sweep, measure, lines),
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
    """k-th anisotropy of the last layer, raw and centered, averaged over the last part of training.

    ``sample`` says what part of the looks is here, where that is not all.
    """
    found = {setting: shares for setting, runs in sweep.finished_by_setting.items() if (shares := _late(runs, looks))}
    sizes = [one.n for shares in found.values() for one in shares.values()]
    intervals = SHARES_OF if max(sizes, default=0) > 1 else ()
    return Figure(
        slug="late-anisotropy",
        title="k-th anisotropy late in training",
        caption=f"Of the last layer, averaged over the measurements in the last {100 * LAST_PART:.0f}% of training. "
        f"{averaged(sizes)} Raw: with the mean of the points; centered: without it.{sample}"
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
            "Averages appear when the first run has ended.",
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
        f"{averaged(sweep_curves.group_sizes(lines))} Range: {MEASURES[slug_of(measure)].range}."
    )


def _late(runs: Sequence[AnyRun], looks: Mapping[str, Looks]) -> dict[str, Estimate]:
    """Each share of the last layer: the mean over a run's late looks, and of these means over runs."""
    means: dict[str, list[tuple[int, float]]] = {}
    for run, seen in ((run, looks[run.id]) for run in runs if looks.get(run.id)):
        for share in SHARES:
            if (late := tail_mean(_last(seen, share), seen[-1][0])) is not None:
                means.setdefault(share, []).append((run.seed, late))
    return {share: estimate([*by_seed(values).values()]) for share, values in means.items()}


def _draw_lines(sweep: Sweep, lines: Means, title: str) -> go.Figure:
    return plot(
        sweep_curves.traces(sweep, lines, bands=sweep_curves.fit_as_bands(lines)),
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
    """Raw to the left, centered to the right, on one scale."""
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
        xaxis2={"title": {"text": "k, centered"}, "dtick": 1, "domain": [0.53, 1], "anchor": "y"},
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


LayerMeasurement = tuple[int, Sequence[float | None]]
"""A step, and the values of all layers then."""


def probe(run: Run, measure: str) -> Figure:
    """Layer by step; a dark cell is a great value."""
    looks = [(step.step, step.layers[measure]) for step in run.steps if step.layers and measure in step.layers]
    return _figure([run], looks, measure, f"{title_of(measure)} by layer and step", "")


def setting_probe(sweep: Sweep, setting: Setting, by_run: Mapping[str, Looks], measure: str, sample: str) -> Figure:
    """Means over the seeds of a setting. ``sample`` says what part of the looks is here, where that is not all."""
    runs = [run for run in sweep.runs if sweep.setting(run) == setting]
    seen: dict[int, list[Row]] = {}
    for run in runs:
        for step, layers in by_run.get(run.id, ()):
            if values := layers.get(measure):
                seen.setdefault(step, []).append((run.seed, values))
    known = [(step, by_place(rows)) for step, rows in sorted(seen.items())]
    looks = [(step, [fmean(layer) if layer else None for layer in layers]) for step, layers in known]
    sizes = [len(layer) for _, layers in known for layer in layers if layer]
    behind = f" {'Means over seeds' if max(sizes) > 1 else 'Of one seed'} ({how_many(sizes)})." if sizes else ""
    title = f"{title_of(measure)} by layer and step, {sweep.label(setting)}"
    return _figure(runs, looks, measure, title, behind + sample)


def _figure(
    runs: Sequence[AnyRun], looks: Sequence[LayerMeasurement], measure: str, title: str, further: str
) -> Figure:
    depth = max((len(values) for _, values in looks), default=0)
    gap = " Empty: the measure was undefined at that step, because points were all equal or not finite."
    caption = _words(runs, measure, looks) + (gap if any(None in values for _, values in looks) else "") + further
    return Figure(
        slug="layers",
        title=title,
        caption=caption,
        table=Table(
            ["step", *(f"layer_{layer + 1}" for layer in range(depth))],
            [[step, *values, *[None] * (depth - len(values))] for step, values in looks],
        ),
        draw=partial(_draw, looks, depth, measure),
        empty=None if looks else _empty(runs),
    )


def _words(runs: Sequence[AnyRun], measure: str, looks: Sequence[LayerMeasurement]) -> str:
    known = [value for _, values in looks for value in values if value is not None]
    shades = f"Light is {number(min(known))}, dark {number(max(known))}; range" if known else "Range"
    of = "one mean vector for each" if is_of_texts(measure) else "the tokens"
    looked = by_scripts(runs, f"of {of} of the same few {texts(runs)} each time{level_of(measure)}")
    return f"By layer, {looked}. {shades}: {MEASURES[slug_of(measure)].range}."


def _empty(runs: Sequence[AnyRun]) -> str:
    if all(run.status.final for run in runs):
        return "This measure was not taken during training."
    return "A column appears after each measurement. The first is taken before training."


def _draw(looks: Sequence[LayerMeasurement], depth: int, measure: str) -> go.Figure:
    steps = len(palette.SCALE) - 1
    cells = go.Heatmap(
        x=[step for step, _ in looks],
        y=list(range(1, depth + 1)),
        z=[[values[layer] if layer < len(values) else None for _, values in looks] for layer in range(depth)],
        xgap=1,
        ygap=1,
        colorscale=[[i / steps, colour] for i, colour in enumerate(palette.SCALE)],
        showscale=False,
        hovertemplate="layer %{y}, step %{x:,}: %{z:.4~g}<extra></extra>",
    )
    bare = {"showline": False, "showgrid": False}
    # A cell reaches half of the way to the looks beside it, but no run has steps before 0 or after its last.
    ends = {"range": [looks[0][0], looks[-1][0]]} if len(looks) > 1 else {}
    return plot(
        [cells],
        xaxis={"title": {"text": "Optimizer step"}, **bare, **ends},
        yaxis={"title": {"text": "Layer"}, "dtick": max(1, -(-depth // 12)), "tick0": 1, **bare},
    )
