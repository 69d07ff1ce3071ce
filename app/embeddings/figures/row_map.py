"""The plot of an embedding's map, with numbers as typed arrays."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from app.db.point_map import MAP, MapColumn, MapLabels
from app.embeddings.figures.projection import LEGEND, LONGEST_LABEL, LONGEST_NAME, OTHER_LABELS, UNLABELED
from app.embeddings.point_map import MAX_DRAWN, TSNE, StoredMap
from app.figures import palette
from app.figures.figure import escape_text, plot
from isoscope.core.formatting import count, number

SEED = 0
RAMP = (palette.MAIN, "#2f6fb3", palette.SECOND, palette.MARKED)
"""Colors from the smallest number to the largest, each with enough contrast on light and dark pages."""
TAIL_SHARE = 0.01  # Share of the rows with numbers beyond each end of the ramp, which have the color of that end
NO_VALUE = "no value"
MARKER_SIZES = ((5000, 5), (50_000, 3), (MAX_DRAWN, 2))  # Maximum number of points, and the marker size up to it


def draw_map(stored_map: StoredMap, color: str) -> go.Figure:
    """Draw a map in its chosen layout. ``color`` is a key of the map's ``colors``; if unknown, take the first."""
    points = np.isfinite(stored_map.drawn_xy[:, 0]).nonzero()[0]
    if len(points) > MAX_DRAWN:
        points = np.sort(np.random.default_rng(SEED).choice(points, MAX_DRAWN, replace=False))
    color = color if color in stored_map.colors else next(iter(stored_map.colors))
    title, values, labels, column = stored_map.colors[color], None, None, None
    if color == "norm":
        values = stored_map.norms[points]
    elif color == "label":
        labels = stored_map.header.labels
        values = stored_map.read(MAP, stored_map.header.sections["label"])[points]
    elif color.startswith("column-"):
        index = int(color.removeprefix("column-"))
        column = stored_map.header.columns[index]
        labels, values = column.labels, stored_map.read_column(index)[points]
    if values is None:
        traces = [_draw_points(stored_map, points, "", {"color": palette.MAIN})]
    elif labels is None:
        traces = _draw_numbers(stored_map, points, values, title, column)
    else:
        traces = _draw_labels(stored_map, points, values, labels)
    axes: list[dict[str, Any]] = [
        {"title": {"text": f"Component {component} ({share:.1%} of variance)"}}
        for component, share in enumerate(stored_map.header.shares, 1)
    ]
    if stored_map.layout == TSNE:
        axes = [{"showticklabels": False, "zeroline": False}] * 2
    return plot(
        traces,
        dragmode="pan",
        uirevision="map",
        selectionrevision=stored_map.layout,
        showlegend=values is not None,
        legend=LEGEND | ({} if labels else {"title": {"text": escape_text(title, LONGEST_LABEL), "side": "top"}}),
        xaxis=axes[0] | {"uirevision": stored_map.layout},
        yaxis=axes[1] | {"uirevision": stored_map.layout, "scaleanchor": "x"},
    )


def _draw_labels(
    stored_map: StoredMap, points: NDArray[np.int64], codes: NDArray[Any], labels: MapLabels
) -> list[go.Scattergl]:
    """Return a trace for each of the most frequent labels, one for other labels and one for rows without a label."""
    # Codes are ranks by frequency. The code makes the group of a label distinct from UNLABELED and OTHER_LABELS.
    groups: dict[str, list[int]] = {UNLABELED: [], OTHER_LABELS: []}
    colors = {UNLABELED: palette.QUIET, OTHER_LABELS: palette.QUIET}
    for code, name in enumerate(labels.names):
        group = OTHER_LABELS if name else UNLABELED
        if name and code < len(palette.SERIES):
            group = f"{code} {name}"
        colors.setdefault(group, palette.SERIES[code % len(palette.SERIES)])
        groups.setdefault(group, []).append(code)
    traces = []
    for group, members in groups.items():
        if members:
            title = group if group in (UNLABELED, OTHER_LABELS) else labels.names[members[0]]
            name = escape_text(title, LONGEST_LABEL)
            trace = _draw_points(stored_map, points[np.isin(codes, members)], name, {"color": colors[group]}, name)
            traces.append(trace.update(name=f"{name} ({count(sum(labels.counts[code] for code in members))})"))
    return traces


def _draw_numbers(
    stored_map: StoredMap, points: NDArray[np.int64], values: NDArray[Any], title: str, column: MapColumn | None
) -> list[go.Scattergl]:
    """Return a trace of rows colored by their number or date, traces for its legend, and one of rows without."""
    format_value = number if column is None else column.format_value
    has_number = ~np.isnan(values)
    traces = []
    name = escape_text(title, LONGEST_NAME)
    if not has_number.all():
        traces.append(
            _draw_points(
                stored_map,
                points[~has_number],
                f"{NO_VALUE} ({count(int((~has_number).sum()))})",
                {"color": palette.QUIET},
                f"{name}: {NO_VALUE}",
            )
        )
    if has_number.any():
        numbers = values[has_number].astype(np.float32)
        low, high = (float(quantile) for quantile in np.quantile(numbers, (TAIL_SHARE, 1 - TAIL_SHARE)))
        stops = np.linspace(low, high if high > low else low + 1, len(RAMP)).tolist()
        marker = {
            "color": numbers,
            "colorscale": [[step / (len(RAMP) - 1), color] for step, color in enumerate(RAMP)],
            "cmin": stops[0],
            "cmax": stops[-1],
        }
        has_dates = column is not None and column.dates
        hover = f"{name} {'%{hovertext}' if has_dates else '%{marker.color:.4~g}'}"
        trace = _draw_points(stored_map, points[has_number], name, marker, hover)
        trace.hovertext = [format_value(value) for value in numbers.tolist()] if has_dates else None
        traces.append(trace.update(showlegend=False))
        # Legend entries replace plotly's color bar, which sets styles that the Content-Security-Policy forbids.
        for stop, color in zip(stops, RAMP, strict=True):
            suffix = ""
            if stop == low > numbers.min():
                suffix = " or less"
            elif stop == high < numbers.max():
                suffix = " or more"
            entry = {"x": [None], "y": [None], "mode": "markers", "hoverinfo": "skip", "marker": {"color": color}}
            traces.append(go.Scattergl(name=f"{format_value(stop)}{suffix}", **entry))
    return traces


def _draw_points(
    stored_map: StoredMap, points: NDArray[np.int64], name: str, marker: dict[str, Any], hover: str = ""
) -> go.Scattergl:
    """Return points as one trace. Its ``customdata`` are positions in the file; ``hover`` ends the hover text."""
    names: Sequence[str] = stored_map.names
    lines = filter(None, ["%{text}" if names else "", "row %{customdata:,}", hover])
    size = next(size for largest, size in MARKER_SIZES if stored_map.header.points <= largest or largest == MAX_DRAWN)
    return go.Scattergl(
        x=stored_map.drawn_xy[points, 0],
        y=stored_map.drawn_xy[points, 1],
        mode="markers",
        customdata=stored_map.positions[points].astype(np.uint32),
        text=[escape_text(names[point], LONGEST_NAME) for point in points.tolist()] if names else None,
        hovertemplate=f"{'<br>'.join(lines)}<extra></extra>",
        name=name,
        marker={"size": size, **marker},
    )
