from dataclasses import replace

from app.embeddings.figures.report import draw_figures
from isotropy.catalog import OUTLIER_RULES
from tests.unit.figures.clouds import subject_with

PROFILE = {
    "mean": [0.0, 5.0, 0.0],
    "std": [1.0, 2.0, 1.0],
    "outliers": [{"dimension": 1, "rules": ["mean_mad", "std_mad"]}],
}


def activation(blamed=(), **changed):
    (figure,) = draw_figures([replace(subject_with("activation_profile", PROFILE | changed), blamed=blamed)])
    return figure


def test_dimensions_of_findings_are_marked_above_band():
    figure, quiet = activation([1]), activation(outliers=[])
    assert "Marked: 1 dimension that findings name (1)." in figure.caption
    assert "rule flags 1 dimension as outliers" in figure.caption
    assert "n = 100 rows" in figure.caption
    assert "No finding names a dimension." in quiet.caption
    mark = figure.draw().data[-1]
    assert (mark.x[0], mark.y[0], mark.text[0]) == (1, 7.0, "1")
    rules = f"{OUTLIER_RULES['mean_mad']}; {OUTLIER_RULES['std_mad']}"
    assert figure.table.rows[1] == [1, 5.0, 2.0, rules]
    assert figure.draw().layout.yaxis.autorangeoptions.include == 7.0 + 0.2 * (7.0 - -1.0)
    assert quiet.draw().layout.yaxis.autorangeoptions.include is None


def test_unknown_outlier_rule_keeps_its_slug():
    figure = activation(outliers=[{"dimension": 0, "rules": ["former_rule"]}])
    assert figure.table.rows[0] == [0, 0.0, 1.0, "former_rule"]
    figure = activation(range(20), mean=[0.0] * 20, std=[1.0] * 20, outliers=[])
    assert "20 dimensions" in figure.caption
    assert "and 12 more" in figure.caption
