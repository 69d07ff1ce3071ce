"""What happens while runs train: task loss, penalty and IsoScore* by layer, over optimizer steps."""

from collections.abc import Sequence
from functools import partial

import plotly.graph_objects as go

from app.db.models import Run, Step
from app.figures import palette
from app.figures.figure import Figure, Table, plot
from app.numerals import plural, short

AT_STEP = "step %{x}: %{y:.4g}<extra></extra>"
STEP_AXIS = {"title": {"text": "Optimizer step"}, "rangemode": "tozero"}


def losses(runs: Sequence[Run], steps: dict[str, list[Step]]) -> Figure:
    """Task loss of every run of a sweep, coloured by λ. ``steps`` are by the id of their run."""
    lines = [(run, [step for step in steps.get(run.id, []) if step.task_loss is not None]) for run in runs]
    lines = [(run, logged) for run, logged in lines if logged]
    return Figure(
        slug="learning",
        title="Learning curves",
        caption=f"Task loss of {plural(len(lines), 'run')} without the penalty, as logged: no smoothing.",
        table=Table(
            ["lambda", "seed", "step", "task_loss"],
            [[run.lam, run.seed, step.step, step.task_loss] for run, logged in lines for step in logged],
        ),
        draw=partial(_draw_losses, lines),
        empty=None if lines else "The curves begin here when the first run has trained a few steps.",
    )


def loss(run: Run) -> Figure:
    """Task loss of one run."""
    return _curve(
        [(step.step, step.task_loss) for step in run.steps],
        slug="loss",
        title="Task loss",
        caption="Cross-entropy of the batches as logged, without the penalty: no smoothing.",
        colour=palette.of_lambda(run.lam),
    )


def penalty(run: Run) -> Figure:
    """Penalty of one run: what the regularizer adds to the task's loss."""
    return _curve(
        [(step.step, step.penalty) for step in run.steps],
        slug="penalty",
        title="Penalty",
        caption=f"λ (1 − IsoScore★) of the batches at λ = {short(run.lam)} and ζ = {short(run.zeta)}, "
        "as added to the task loss.",
        colour=palette.of_lambda(run.lam),
    )


def layers(run: Run) -> Figure:
    """IsoScore* of a fixed set of validation rows by layer, while the run trains."""
    logged = [(step.step, step.layers["isoscore_star"]) for step in run.steps if step.layers]
    depth = max((len(values) for _, values in logged), default=0)
    gap = " A gap is a probe whose points were all equal or not finite, so that it has no IsoScore★."
    return Figure(
        slug="layers",
        title="IsoScore★ by layer",
        caption=(
            "Of the same few validation rows each time, at ζ = 0: low for few tokens, so read the trend, not the level."
            + (gap if any(None in values for _, values in logged) else "")
        ),
        table=Table(
            ["step", *(f"layer_{layer + 1}" for layer in range(depth))],
            [[step, *values] for step, values in logged],
        ),
        draw=partial(_draw_layers, logged, depth),
        empty=None if logged else "One line for each layer appears here after the first probe of the model.",
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


def _draw_losses(lines: list[tuple[Run, list[Step]]]) -> go.Figure:
    named: set[float] = set()
    traces = []
    for run, logged in sorted(lines, key=lambda line: (line[0].lam, line[0].seed)):
        traces.append(
            go.Scatter(
                x=[step.step for step in logged],
                y=[step.task_loss for step in logged],
                mode="lines" if len(logged) > 1 else "markers",
                line={"color": palette.of_lambda(run.lam), "width": 1.3},
                opacity=0.8,
                name=short(run.lam),
                legendgroup=short(run.lam),
                showlegend=run.lam not in named,
                hovertemplate=f"λ = {short(run.lam)}, seed {run.seed}<br>{AT_STEP}",
            )
        )
        named.add(run.lam)
    return plot(
        traces,
        showlegend=True,
        legend={"title": {"text": "λ "}},
        xaxis=STEP_AXIS,
        yaxis={"title": {"text": "Task loss"}, "rangemode": "tozero"},
    )


def _draw_layers(logged: list[tuple[int, list[float | None]]], depth: int) -> go.Figure:
    traces = [
        go.Scatter(
            x=[step for step, _ in logged],
            y=[values[layer] for _, values in logged],
            mode="lines" if len(logged) > 1 else "markers",
            line={"color": palette.of_layer(layer, depth), "width": 1.6},
            name=str(layer + 1),
            hovertemplate=f"layer {layer + 1}<br>{AT_STEP}",
        )
        for layer in range(depth)
    ]
    return plot(
        traces,
        showlegend=True,
        legend={"title": {"text": "Layer "}},
        xaxis=STEP_AXIS,
        yaxis={"title": {"text": "IsoScore★ (1 is isotropic)"}, "rangemode": "tozero"},
    )
