from app.embeddings.figures.sample_size import ZETAS, ZetaLine, choose, read_lines, zeta_curve
from app.figures.palette import MAIN, MARKED

FEW = ZetaLine(32, [0.1 + 0.9 * zeta for zeta in ZETAS])
MANY = ZetaLine(400, [0.5 + 0.5 * zeta for zeta in ZETAS])


def test_stored_lines_are_read_from_few_rows_to_many():
    stored = [{"rows": 400, "values": [0.5] * 101, "reason": None}, {"rows": 1, "values": None, "reason": "One row."}]
    lines = read_lines(stored)
    assert [line.rows for line in lines] == [1, 400]
    assert lines[0].at(0.2) is None
    assert lines[1].at(0.2) == 0.5


def test_the_line_of_most_rows_is_chosen_unless_another_is_asked_for():
    assert choose([FEW, MANY], None) is MANY
    assert choose([FEW, MANY], 32) is FEW
    assert choose([FEW, MANY], 33) is MANY


def test_the_reading_is_marked_on_the_chosen_line():
    figure = zeta_curve([FEW, MANY], FEW, 0.2, "the identity")
    assert "only the shrinkage covariance: the identity." in figure.caption
    marks = [trace for trace in figure.draw().data if trace.marker.color == MARKED]
    assert [(trace.x[0], round(trace.y[0], 12)) for trace in marks] == [(0.2, 0.28)]
    chosen = [trace for trace in figure.draw().data if trace.line.color == MAIN]
    assert [trace.text[0].strip() for trace in chosen] == ["32"]


def test_names_at_the_beginnings_do_not_cover_one_another():
    near = ZetaLine(800, [value + 0.001 for value in MANY.values])
    traces = zeta_curve([FEW, MANY, near], near, 0.2, "the identity").draw().data
    assert sorted(trace.text[0].strip() for trace in traces if trace.mode == "lines+text") == ["", "32", "800"]


def test_the_table_has_a_row_for_each_zeta():
    table = zeta_curve([FEW, MANY], MANY, 0, "the identity").table
    assert table.columns == ["zeta", "isoscore_star_32_rows", "isoscore_star_400_rows"]
    assert len(table.rows) == 101
    assert table.rows[100] == [1.0, 1.0, 1.0]


def test_lines_without_any_value_leave_the_figure_empty():
    line = ZetaLine(1, [None] * 101, "One row.")
    assert "undefined" in zeta_curve([line], line, 0.2, "the identity").empty
