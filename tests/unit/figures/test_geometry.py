import pytest

from app.figures.activation import activation
from app.figures.cosines import cosines
from app.figures.geometry import anisotropy, cumulative, spectrum
from app.figures.palette import MARKED
from isotropy.catalog import OUTLIER_RULES

PROFILE = {
    "mean": [0.0, 5.0, 0.0],
    "std": [1.0, 2.0, 1.0],
    "outliers": [{"dimension": 1, "rules": ["mean_mad", "std_mad"]}],
}


def test_outlier_dimensions_are_named_and_marked_above_the_band():
    figure = activation(PROFILE, 100)
    assert "1 dimension that some outlier rule flags (1)" in figure.caption
    assert "n = 100 rows" in figure.caption
    (mark,) = [trace for trace in figure.draw().data if trace.marker.color == MARKED]
    assert (mark.x[0], mark.y[0], mark.text[0]) == (1, 7.0, "1")
    rules = f"{OUTLIER_RULES['mean_mad']}; {OUTLIER_RULES['std_mad']}"
    assert figure.table.rows[1] == [1, 5.0, 2.0, rules]


def test_an_outlier_rule_of_another_version_is_called_by_its_slug():
    figure = activation(PROFILE | {"outliers": [{"dimension": 0, "rules": ["former_rule"]}]}, 100)
    assert figure.table.rows[0] == [0, 0.0, 1.0, "former_rule"]


def test_many_outliers_are_counted_rather_than_all_named():
    flagged = [{"dimension": i, "rules": ["std_mad"]} for i in range(20)]
    figure = activation({"mean": [0.0] * 20, "std": [1.0] * 20, "outliers": flagged}, 100)
    assert "20 dimensions" in figure.caption
    assert "and 12 more" in figure.caption


def test_a_quiet_profile_says_so():
    assert "No outlier rule flags" in activation(PROFILE | {"outliers": []}, 100).caption


def test_eigenvalues_of_zero_have_no_place_on_a_logarithmic_axis():
    plot = spectrum([4.0, 1.0, 0.0], 10).draw()
    assert plot.layout.yaxis.type == "log"
    assert list(plot.data[0].y) == [4.0, 1.0, None]


def test_cumulative_shares_end_at_one_and_the_caption_says_where_half_is():
    figure = cumulative([3.0, 2.0, 1.0], 10)
    assert [row[1] for row in figure.table.rows] == pytest.approx([0.5, 5 / 6, 1.0])
    assert "Half of it lies in 1 component of 3" in figure.caption


def test_no_variance_is_told_in_words():
    assert "all rows are equal" in cumulative([0.0, 0.0], 10).empty


def test_raw_and_centred_anisotropy_stand_side_by_side():
    bars = anisotropy([0.5, 0.2], [0.3, 0.25], 10).draw().data
    assert [(bar.name, list(bar.y)) for bar in bars] == [("raw", [0.5, 0.2]), ("centred", [0.3, 0.25])]


def test_the_exact_mean_cosine_is_a_line_and_a_sample_is_disclosed():
    histogram = {"edges": [-1.0, 0.0, 0.5, 1.0], "counts": [0, 3, 1], "rows": 2000}
    figure = cosines(histogram, 0.25, 8000)
    assert "2,000 rows drawn of 8,000" in figure.caption
    assert figure.draw().layout.shapes[0].x0 == 0.25
    assert figure.table.rows[1] == [0.0, 0.5, 3]
    assert "all pairs of 2,000 rows" in cosines(histogram, 0.25, 2000).caption


def test_no_pairs_are_told_in_words():
    assert "no pair" in cosines({"edges": [-1.0, 1.0], "counts": [0], "rows": 1}, None, 1).empty
