"""What each dimension adds to the mean cosine."""

from functools import partial

import plotly.graph_objects as go

from app.figures import palette
from app.figures.figure import Figure, plot
from app.figures.overlay import Overlay, Series
from isoscope.core.formatting import count, number

ROGUE = "rogue_dimensions"
NAMED = 3
LEAST_GAP = 0.04
"""Of the axis, between two names."""


def rogue(overlay: Overlay) -> Figure:
    """The contribution of each dimension to the mean cosine, the greatest named."""
    return Figure(
        slug="rogue",
        title="Rogue dimensions",
        caption=f"What each dimension adds to the mean cosine, {overlay.rows(lambda one: one.n(ROGUE))}. "
        f"Greatest: {overlay.each(partial(_name_greatest, 1 if overlay.several else NAMED))}.",
        table=overlay.stacked(
            {
                "dimension": lambda one: range(len(_contributions(one))),
                "contribution": _contributions,
                "share_of_mean": _shares,
            }
        ),
        draw=partial(_draw, overlay),
    )


def _contributions(one: Series) -> list[float]:
    contributions: list[float] = one.of(ROGUE)["contributions"]
    return contributions


def _greatest(one: Series, most: int = NAMED) -> list[int]:
    """The dimensions that add most, greatest first, of those that add anything."""
    contributions = _contributions(one)
    order = sorted(range(len(contributions)), key=lambda i: -contributions[i])
    return [i for i in order[:most] if contributions[i] > 0]


def _whole(one: Series) -> float | None:
    """The mean cosine, where contributions are shares of it: not where positive and negative ones cancel."""
    contributions = _contributions(one)
    whole = sum(contributions)
    return whole if 0 < max(contributions) <= whole else None


def _name_greatest(most: int, one: Series) -> str:
    contributions, whole = _contributions(one), _whole(one)
    named = ", ".join(
        f"{count(i)} ({number(contributions[i], 2)}"
        + (f", {contributions[i] / whole:.0%} of the mean)" if whole else ")")
        for i in _greatest(one, most)
    )
    return named or "none, as no dimension adds to it"


def _shares(one: Series) -> list[float | None]:
    whole = _whole(one)
    return [contribution / whole if whole else None for contribution in _contributions(one)]


def _draw(overlay: Overlay) -> go.Figure:
    longest = max(len(_contributions(one)) for one in overlay.series)
    # The greatest first, so that lesser ones at the same dimension stand in front.
    order = sorted(overlay.series, key=lambda one: -max(_contributions(one)))
    names = [] if overlay.several else [_names(overlay.series[0])]
    return plot(
        [*(_stems(overlay, one) for one in order), *names],
        showlegend=overlay.several,
        xaxis={"title": {"text": "Dimension"}, "range": [-0.5, longest - 0.5]},
        yaxis={"title": {"text": "Contribution to the mean cosine"}},
    )


def _stems(overlay: Overlay, one: Series) -> go.Scatter:
    """A line up from zero for each dimension, which however many there are stays at least a pixel wide."""
    contributions, whole = _contributions(one), _whole(one)
    share = [f", {contribution / whole:.1%} of the mean" if whole else "" for contribution in contributions]
    return go.Scatter(
        x=[x for i in range(len(contributions)) for x in (i, i, None)],
        y=[y for contribution in contributions for y in (0, contribution, None)],
        mode="lines",
        line={"color": one.colour, "width": 1.4},
        name=one.label,
        legendrank=overlay.series.index(one) + 1,
        text=[word for words in share for word in (words, words, None)],
        hovertemplate=overlay.hover(one, "dimension %{x:,}: %{y:.3g}%{text}"),
    )


def _names(one: Series) -> go.Scatter:
    """The numbers of the greatest at their ends, but for one that would cover a greater one's."""
    contributions, greatest = _contributions(one), _greatest(one)
    room = LEAST_GAP * len(contributions)
    named = [i for place, i in enumerate(greatest) if all(abs(i - other) >= room for other in greatest[:place])]
    return go.Scatter(
        x=named,
        y=[contributions[i] for i in named],
        mode="markers+text",
        marker={"color": palette.MARKED, "size": 6},
        text=[str(i) for i in named],
        textposition="top center",
        hoverinfo="skip",
        showlegend=False,
        cliponaxis=False,
    )
