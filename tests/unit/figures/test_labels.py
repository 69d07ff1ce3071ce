from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.figures import labels


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ("lambda", "λ"),
        ("zeta", "ζ"),
        ("batch_size", "batch size"),
        ("ci95_half_width", "± (95% CI)"),
        ("isoscore_star_mean", "IsoScore★ mean"),
        ("isoscore_star_ci95_half_width", "IsoScore★ ± (95% CI)"),
        ("raw_1", "raw, k = 1"),
        ("centred_3_ci95_half_width", "centered, k = 3 ± (95% CI)"),
    ],
)
def test_heading_names_column_in_words(column, words):
    assert labels.heading(column) == words


LAYER = "sst2 · all-MiniLM-L6-v2 · layer {}, mean"


@pytest.mark.parametrize(
    ("names", "room", "short"),
    [
        (["word2vec.npz, centered", "word2vec.npz, white"], 28, ["word2vec.npz, centered", "word2vec.npz, white"]),
        ([LAYER.format(i) for i in (0, 3, 6)], 28, ["layer 0, mean", "layer 3, mean", "layer 6, mean"]),
        ([LAYER.format(i) for i in (0, 3)], 10, ["layer 0", "layer 3"]),
        (
            ["a long name · first, pooled", "a longer name · second, pooled"], 24,
            ["a long name · first", "a longer name · second"],
        ),
        (["glove.npz", "glove.npz, Soft ZCA whitening, eps 0.1"], 28, ["glove.npz", "glove.npz, Sof…ning, eps 0.1"]),
        ([LAYER.format(3)], 28, ["sst2 · all-Min…layer 3, mean"]),
        (
            [f"one and the same beginning {i} one and the same end" for i in (1, 2)], 20,
            ["1. one and …same end", "2. one and …same end"],
        ),
    ],
    ids=["short", "shared start", "shared end", "both", "prefix of others", "single", "equal once cut"],
)  # fmt: skip
def test_short_names_drop_shared_parts(names, room, short):
    assert labels.shorten_names(names, room) == short


UNIT = [0.0, 1.0]
coordinates = st.tuples(st.floats(0, 1), st.floats(0, 1))


@pytest.mark.parametrize(
    ("points", "corners"),
    [
        ([(0.5, 0.5, 0, 0)], ["top right"]),
        ([(0.5, 0.5, 0, 0)] * 2, ["top right", "top left"]),
        ([(0.5, 0.5, 0, 0)] * 6, ["top right", "top left", "bottom right", "bottom left", None, None]),
        ([(0.95, 0.95, 0, 0)], ["bottom left"]),
        ([(0.5, 0.5, 0, 0), (0.55, 0.2, 0, 0.8)], ["top left"]),
    ],
    ids=["single", "two on one point", "no room", "at the edge", "error bar of another point"],
)
def test_label_avoids_labels_error_bars_and_edge(points, corners):
    assert (
        labels.place_labels([labels.LabeledPoint(*point, "λ = 1") for point in points], UNIT, UNIT)[: len(corners)]
        == corners
    )


@given(st.lists(coordinates, min_size=1, max_size=15))
def test_labels_do_not_overlap_labels_or_points(positions):
    points = [labels.LabeledPoint(x, y, 0, 0, "λ = −1") for x, y in positions]
    corners = labels.place_labels(points, UNIT, UNIT)
    pixels = [labels.LabeledPoint(x * labels.WIDTH, y * labels.HEIGHT, 0, 0, "λ = −1") for x, y in positions]
    boxes = [labels._place_box(point, *where.split()) for point, where in zip(pixels, corners, strict=True) if where]
    assert not any(first.overlaps(second) for first, second in combinations(boxes, 2))
    marks = [
        labels.LabelBox(p.x - labels.POINT, p.y - labels.POINT, p.x + labels.POINT, p.y + labels.POINT) for p in pixels
    ]
    assert not any(box.overlaps(mark) for box in boxes for mark in marks)
