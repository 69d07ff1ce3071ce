"""Heads of columns, short names in a legend, and where the names of points stand."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.figures.labels import HEIGHT, POINT, WIDTH, LabelBox, LabeledPoint, _corner, heading, positions, short_names


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
def test_a_column_is_called_on_a_page_as_a_reader_would(column, words):
    assert heading(column) == words


LAYER = "sst2 · all-MiniLM-L6-v2 · layer {}, mean"


def test_names_that_are_short_enough_stay_whole():
    names = ["word2vec.npz, centered", "word2vec.npz, whitened"]
    assert short_names(names, 28) == names


def test_what_all_begin_with_is_left_out_where_there_is_no_room_for_it():
    assert short_names([LAYER.format(i) for i in (0, 3, 6)], 28) == ["layer 0, mean", "layer 3, mean", "layer 6, mean"]


def test_what_all_end_with_goes_only_if_that_is_not_enough():
    assert short_names([LAYER.format(i) for i in (0, 3)], 10) == ["layer 0", "layer 3"]
    names = ["a long name · first, pooled", "a longer name · second, pooled"]
    assert short_names(names, 24) == ["a long name · first", "a longer name · second"]


def test_of_a_name_that_begins_all_others_something_is_left():
    names = ["glove.npz", "glove.npz, Soft ZCA whitening, eps 0.1"]
    assert short_names(names, 28) == ["glove.npz", "glove.npz, Sof…ning, eps 0.1"]


def test_one_name_loses_its_middle():
    assert short_names([LAYER.format(3)], 28) == ["sst2 · all-Min…layer 3, mean"]


def test_names_that_are_alike_once_cut_are_numbered():
    names = [f"one and the same beginning {i} one and the same end" for i in (1, 2)]
    assert short_names(names, 20) == ["1. one and …same end", "2. one and …same end"]


UNIT = [0.0, 1.0]
coordinates = st.tuples(st.floats(0, 1), st.floats(0, 1))


def test_a_name_alone_stands_above_to_the_right():
    assert positions([LabeledPoint(0.5, 0.5, 0, 0, "λ = 1")], UNIT, UNIT) == ["top right"]


def test_of_two_at_one_place_neither_hides_the_other_s_point_and_the_names_are_apart():
    corners = positions([LabeledPoint(0.5, 0.5, 0, 0, "λ = 0"), LabeledPoint(0.5, 0.5, 0, 0, "λ = 1")], UNIT, UNIT)
    assert corners == ["top right", "top left"]


def test_a_name_for_which_there_is_no_room_is_left_out_and_the_first_keeps_its_own():
    corners = positions([LabeledPoint(0.5, 0.5, 0, 0, "λ = 0")] * 6, UNIT, UNIT)
    assert corners == ["top right", "top left", "bottom right", "bottom left", None, None]


def test_a_name_at_the_edge_stays_within_the_axes():
    assert positions([LabeledPoint(0.95, 0.95, 0, 0, "λ = 1")], UNIT, UNIT) == ["bottom left"]


def test_a_name_avoids_the_error_bar_of_another_point():
    crossing = LabeledPoint(0.55, 0.2, 0, 0.8, "λ = 1")
    assert positions([LabeledPoint(0.5, 0.5, 0, 0, "λ = 0"), crossing], UNIT, UNIT)[0] == "top left"


@given(st.lists(coordinates, min_size=1, max_size=15))
def test_no_name_lies_on_another_or_on_a_point(places):
    points = [LabeledPoint(x, y, 0, 0, "λ = −1") for x, y in places]
    corners = positions(points, UNIT, UNIT)
    pixels = [LabeledPoint(x * WIDTH, y * HEIGHT, 0, 0, "λ = −1") for x, y in places]
    boxes = [_corner(point, *where.split()) for point, where in zip(pixels, corners, strict=True) if where]
    assert not any(one.meets(other) for one, other in combinations(boxes, 2))
    marks = [LabelBox(p.x - POINT, p.y - POINT, p.x + POINT, p.y + POINT) for p in pixels]
    assert not any(box.meets(mark) for box in boxes for mark in marks)
