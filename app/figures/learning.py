"""What runs log as they train: task loss and penalty over optimizer steps."""

from collections.abc import Mapping, Sequence
from functools import partial

import plotly.graph_objects as go

from app.db.models import Run
from app.db.stated import Stated
from app.db.task import TaskKind
from app.figures import legend, palette
from app.figures.axes import STEP_AXIS
from app.figures.figure import Figure, Table, plain, plot
from app.figures.methods import penalty_words
from app.figures.sweep import Sweep
from app.numerals import plural

Curve = Sequence[tuple[int, float]]
"""A value at every step at which it was logged."""

AT_STEP = "step %{x:,}: %{y:.4g}<extra></extra>"
LOSSES = {
    TaskKind.CLASSIFICATION: "Cross-entropy",
    TaskKind.REGRESSION: "Squared error",
    TaskKind.SPAN: "Cross-entropy of the span’s two ends",
}


def losses(sweep: Sweep, logged: Mapping[str, Curve]) -> Figure:
    """Task loss of every run of a sweep, coloured as its settings are. ``logged`` are curves by run."""
    lines = [(run, logged[run.id]) for run in sweep.runs if logged.get(run.id)]
    return Figure(
        slug="learning",
        title="Learning curves",
        caption=f"Task loss of {plural(len(lines), 'run')} without the penalty, as logged: no smoothing.",
        table=Table(
            [*sweep.columns, "seed", "step", "task_loss"],
            [
                [*cells, run.seed, step, value]
                for run, curve in lines
                for cells in [sweep.cells(sweep.setting(run))]
                for step, value in curve
            ],
        ),
        draw=partial(_draw_losses, sweep, lines),
        empty=None if lines else "The curves begin here when the first run has trained a few steps.",
    )


def loss(run: Run) -> Figure:
    """Task loss of one run."""
    stated = Stated.of(run)
    launched = f"{LOSSES[stated.task]} of the batches as logged, without the penalty"
    return _curve(
        [(step.step, step.task_loss) for step in run.steps],
        slug="loss",
        title="Task loss",
        caption=f"{'As its script logged it' if stated.logged else launched}: no smoothing.",
        colour=palette.of_lambda(run.lam),
    )


def penalty(run: Run) -> Figure:
    """Penalty of one run: what its regularizers add to the task's loss."""
    return _curve(
        [(step.step, step.penalty) for step in run.steps],
        slug="penalty",
        title="Penalty",
        caption=f"{penalty_words(Stated.of(run))}, as added to the task loss.",
        colour=palette.of_lambda(run.lam),
    )


def _curve(points: list[tuple[int, float | None]], *, slug: str, title: str, caption: str, colour: str) -> Figure:
    known = [(step, value) for step, value in points if value is not None]
    return Figure(
        slug=slug,
        title=title,
        caption=caption,
        table=Table(["step", slug], [[step, value] for step, value in known]),
        draw=partial(_draw_curve, known, title, colour),
        empty=None if known else "The curve begins here when the run has trained a few steps.",
    )


def _draw_curve(points: list[tuple[int, float]], title: str, colour: str) -> go.Figure:
    line = go.Scatter(
        x=[step for step, _ in points],
        y=[value for _, value in points],
        mode="lines" if len(points) > 1 else "markers",
        line={"color": colour, "width": 1.6},
        hovertemplate=AT_STEP,
    )
    return plot([line], xaxis=STEP_AXIS, yaxis={"title": {"text": title}})


def _draw_losses(sweep: Sweep, lines: Sequence[tuple[Run, Curve]]) -> go.Figure:
    named: set[str] = set()
    traces = []
    for run, curve in sorted(lines, key=lambda line: (sweep.settings.index(sweep.setting(line[0])), line[0].seed)):
        setting = sweep.setting(run)
        name = legend.group(sweep, setting)
        traces.append(
            go.Scatter(
                x=[step for step, _ in curve],
                y=[value for _, value in curve],
                mode="lines" if len(curve) > 1 else "markers",
                line={"color": legend.colour(sweep, setting), "width": 1.3},
                opacity=0.8,
                name=name,
                legendgroup=name,
                showlegend=name not in named,
                hovertemplate=f"{plain(sweep.label(setting), 120)}, seed {run.seed}<br>{AT_STEP}",
            )
        )
        named.add(name)
    return plot(
        traces,
        showlegend=True,
        xaxis=STEP_AXIS,
        yaxis={"title": {"text": "Task loss"}},
    )
