from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from app.figures.labels import HEIGHT, POINT, WIDTH, Box, Named, _corner, positions

UNIT = [0.0, 1.0]
coordinates = st.tuples(st.floats(0, 1), st.floats(0, 1))


def test_a_name_alone_stands_above_to_the_right():
    assert positions([Named(0.5, 0.5, 0, 0, "λ = 1")], UNIT, UNIT) == ["top right"]


def test_of_two_at_one_place_neither_hides_the_other_s_point_and_the_names_are_apart():
    found = positions([Named(0.5, 0.5, 0, 0, "λ = 0"), Named(0.5, 0.5, 0, 0, "λ = 1")], UNIT, UNIT)
    assert found == ["top right", "top left"]


def test_a_name_for_which_there_is_no_room_is_left_out_and_the_first_keeps_its_own():
    found = positions([Named(0.5, 0.5, 0, 0, "λ = 0")] * 6, UNIT, UNIT)
    assert found == ["top right", "top left", "bottom right", "bottom left", None, None]


def test_a_name_at_the_edge_stays_within_the_axes():
    assert positions([Named(0.95, 0.95, 0, 0, "λ = 1")], UNIT, UNIT) == ["bottom left"]


def test_a_name_avoids_the_error_bar_of_another_point():
    crossing = Named(0.55, 0.2, 0, 0.8, "λ = 1")
    assert positions([Named(0.5, 0.5, 0, 0, "λ = 0"), crossing], UNIT, UNIT)[0] == "top left"


@given(st.lists(coordinates, min_size=1, max_size=15))
def test_no_name_lies_on_another_or_on_a_point(places):
    points = [Named(x, y, 0, 0, "λ = −1") for x, y in places]
    found = positions(points, UNIT, UNIT)
    pixels = [Named(x * WIDTH, y * HEIGHT, 0, 0, "λ = −1") for x, y in places]
    boxes = [_corner(point, *where.split()) for point, where in zip(pixels, found, strict=True) if where]
    assert not any(one.meets(other) for one, other in combinations(boxes, 2))
    marks = [Box(p.x - POINT, p.y - POINT, p.x + POINT, p.y + POINT) for p in pixels]
    assert not any(box.meets(mark) for box in boxes for mark in marks)
