from app.embeddings.figures.sample_size import ZETAS, ZetaLine, choose_zeta_line, parse_zeta_lines, zeta_curve
from app.figures.palette import MAIN, MARKED

SMALL = ZetaLine(rows=32, values=[0.1 + 0.9 * zeta for zeta in ZETAS])
LARGE = ZetaLine(rows=400, values=[0.5 + 0.5 * zeta for zeta in ZETAS])


def test_zeta_lines_are_sorted_and_largest_is_default():
    stored = [{"rows": 400, "values": [0.5] * 101, "reason": None}, {"rows": 1, "values": None, "reason": "One row."}]
    lines = parse_zeta_lines(stored)
    assert [(line.rows, line.score_at(0.2)) for line in lines] == [(1, None), (400, 0.5)]
    assert [choose_zeta_line([SMALL, LARGE], rows) for rows in (None, 32, 33)] == [LARGE, SMALL, LARGE]
    near = ZetaLine(rows=800, values=[value + 0.001 for value in LARGE.values])
    traces = zeta_curve([SMALL, LARGE, near], near, 0.2, "the identity").draw().data
    assert sorted(trace.text[0].strip() for trace in traces if trace.mode == "lines+text") == ["", "32", "800"]


def test_zeta_curve_marks_score_and_tabulates_every_zeta():
    figure = zeta_curve([SMALL, LARGE], SMALL, 0.2, "the identity")
    assert "only the shrinkage covariance: the identity." in figure.caption
    traces = figure.draw().data
    assert [(trace.x[0], round(trace.y[0], 12)) for trace in traces if trace.marker.color == MARKED] == [(0.2, 0.28)]
    assert [trace.text[0].strip() for trace in traces if trace.line.color == MAIN] == ["32"]
    table = zeta_curve([SMALL, LARGE], LARGE, 0, "the identity").table
    assert table.columns == ["zeta", "isoscore_star_32_rows", "isoscore_star_400_rows"]
    assert (len(table.rows), table.rows[100]) == (101, [1.0, 1.0, 1.0])
    line = ZetaLine(rows=1, values=[None] * 101, reason="One row.")
    assert "undefined" in zeta_curve([line], line, 0.2, "the identity").empty
