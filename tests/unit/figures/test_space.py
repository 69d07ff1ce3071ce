import pytest

from app.figures.palette import MAIN, MARKED, QUIET
from app.playground.clouds import MEASURES, SHAPES, SHIFTS, SPREADS, Position, generate_cloud, get_measures
from app.playground.figures import RANGES, cloud_figure, shift_figure

SHIFTED = Position("cone", 1.0, 2.0, 32)


def clouds(figure):
    return {trace.marker.color: trace for trace in figure.draw().data if trace.mode == "markers"}


def test_shifted_cloud_is_drawn_beside_original():
    scatters = clouds(cloud_figure(SHIFTED))
    assert scatters[MAIN].x == pytest.approx([x + 2 for x in scatters[QUIET].x], abs=2e-4)
    assert scatters[MAIN].y == scatters[QUIET].y
    (line,) = (trace for trace in cloud_figure(SHIFTED).draw().data if trace.marker.color == MARKED)
    assert (line.x, line.y, line.z) == ((0, 2), (0, 0), (0, 0))
    figure = cloud_figure(SHIFTED._replace(shift=0.0))
    assert clouds(figure)[QUIET].x == ()
    assert "Gray" not in figure.caption
    table = cloud_figure(SHIFTED).table
    assert table.columns == ["x", "y", "z"]
    assert table.rows[5] == pytest.approx(generate_cloud(*SHIFTED)[5], abs=5e-5)


def test_axes_and_camera_do_not_depend_on_cloud():
    layouts = [
        cloud_figure(position).draw().layout
        for position in (SHIFTED, SHIFTED._replace(shift=7.0), SHIFTED._replace(n=8))
    ]
    assert len({layout.uirevision for layout in layouts}) == 1
    assert layouts[0].uirevision
    assert len({(fig.scene.xaxis.range, fig.scene.yaxis.range, fig.scene.zaxis.range) for fig in layouts}) == 1


@pytest.mark.parametrize("shape", SHAPES)
def test_every_point_lies_within_axes(shape):
    for spread in SPREADS:
        for shift in (SHIFTS[0], SHIFTS[-1]):
            points = generate_cloud(shape, spread, shift, 2000)
            for axis, (low, high) in enumerate(RANGES):
                assert low < points[:, axis].min()
                assert points[:, axis].max() < high


def test_flat_cloud_is_drawn_in_three_planes():
    drawn = cloud_figure(SHIFTED, flat=True).draw()
    assert len([trace for trace in drawn.data if trace.marker.color == MAIN]) == 3
    assert {trace.type for trace in drawn.data} == {"scatter"}
    assert [drawn.layout[f"yaxis{panel}"].scaleanchor for panel in ("", 2, 3)] == ["x", "x2", "x3"]
    assert [drawn.layout[f"xaxis{panel}"].title.text for panel in ("", 2, 3)] == ["x", "y", "x"]


def test_shift_figure_draws_two_measures_and_tabulates_all():
    position = SHIFTED._replace(n=512)
    figure = shift_figure(position)
    numbers = get_measures(position)
    lines = [trace for trace in figure.draw().data if trace.mode == "lines+text"]
    assert [line.text[-1].strip() for line in lines] == ["Mean cosine", "IsoScore"]
    marks = [trace for trace in figure.draw().data if trace.mode == "markers+text"]
    assert [(mark.x[0], mark.y[0]) for mark in marks] == [(2, numbers["mean_cosine"]), (2, numbers["isoscore"])]
    assert [mark.textposition.split()[0] for mark in marks] == ["bottom", "top"]
    table = shift_figure(SHIFTED).table
    assert table.columns == ["shift", *MEASURES]
    assert table.rows[2] == [2, *get_measures(SHIFTED).values()]
