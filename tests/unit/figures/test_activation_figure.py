from app.embeddings.figures.report import figures_of
from isotropy.catalog import OUTLIER_RULES
from tests.unit.figures.clouds import subject_with

PROFILE = {
    "mean": [0.0, 5.0, 0.0],
    "std": [1.0, 2.0, 1.0],
    "outliers": [{"dimension": 1, "rules": ["mean_mad", "std_mad"]}],
}


def activation(**changed):
    (figure,) = figures_of([subject_with("activation_profile", PROFILE | changed)])
    return figure


def test_outlier_dimensions_are_named_and_marked_above_the_band_with_room_for_the_name():
    figure, quiet = activation(), activation(outliers=[])
    assert "1 dimension flagged by an outlier rule (1)" in figure.caption
    assert "n = 100 rows" in figure.caption
    assert ("Marked: 1" in figure.caption, "No rule flags a dimension" in quiet.caption) == (True, True)
    mark = figure.draw().data[-1]
    assert (mark.x[0], mark.y[0], mark.text[0]) == (1, 7.0, "1")
    rules = f"{OUTLIER_RULES['mean_mad']}; {OUTLIER_RULES['std_mad']}"
    assert figure.table.rows[1] == [1, 5.0, 2.0, rules]
    assert figure.draw().layout.yaxis.autorangeoptions.include == 7.0 + 0.1 * (7.0 - -1.0)
    assert quiet.draw().layout.yaxis.autorangeoptions.include is None


def test_an_outlier_rule_of_another_version_has_its_slug_and_many_outliers_are_counted():
    figure = activation(outliers=[{"dimension": 0, "rules": ["former_rule"]}])
    assert figure.table.rows[0] == [0, 0.0, 1.0, "former_rule"]
    flagged = [{"dimension": i, "rules": ["std_mad"]} for i in range(20)]
    figure = activation(mean=[0.0] * 20, std=[1.0] * 20, outliers=flagged)
    assert "20 dimensions" in figure.caption
    assert "and 12 more" in figure.caption
