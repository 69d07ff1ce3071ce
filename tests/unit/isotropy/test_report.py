import json
import math

import numpy as np
import pytest

from isotropy import cloud
from isotropy.catalog import MEASURES as CATALOG
from isotropy.cloud import ZETA, read_cloud
from isotropy.report import MEASURES, measure
from isotropy.rows import Rows


@pytest.fixture
def x():
    x = np.random.default_rng(0).normal(size=(300, 8)).astype(np.float32)
    x[:, 3] += 4
    x[:5] = 0
    return x


def points(n, d, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def result_of(slug, x, labels=None):
    return measure(read_cloud(Rows(x, labels)), [slug])[slug]


def test_report_has_measures_in_catalog_order(x):
    assert set(MEASURES) == set(CATALOG)
    points = read_cloud(Rows(x))
    assert list(measure(points)) == list(CATALOG)
    assert list(measure(points, ["twonn", "isoscore"])) == ["isoscore", "twonn"]
    assert list(measure(points, "isoscore_star")) == ["isoscore_star"]
    with pytest.raises(ValueError, match="There is no measure 'typo': choose among isoscore_unbiased, "):
        measure(read_cloud(Rows(x)), ["isoscore", "typo"])


@pytest.mark.parametrize("labels", [None, ["a", "b"] * 150])
def test_results_are_json_and_undefined_ones_have_a_reason(x, labels):
    for slug, finding in measure(read_cloud(Rows(x, labels))).items():
        json.dumps([finding.value, finding.detail], allow_nan=False)
        assert (finding.score.value is None) == (labels is None and CATALOG[slug].group == "labels"), slug
    for slug, finding in measure(read_cloud(Rows(np.empty((0, 4))))).items():
        assert (finding.value, finding.detail) == (None, None), slug
        assert finding.score.reason.endswith("."), slug


def test_report_holds_lists_settings_and_fits(x):
    finding = result_of("explained_variance", x)
    variances = np.linalg.eigvalsh(np.cov(x.T.astype(float)))[::-1]
    assert finding.value == pytest.approx(variances.cumsum() / variances.sum())
    assert finding.score.value == finding.value[0]
    assert result_of("isoscore_star", x).detail == {"zeta": ZETA, "source": "identity"}
    assert result_of("uniformity", x).detail == {"t": 2}
    assert result_of("levina_bickel", x).detail == {"k": 10}
    assert result_of("alpha_req", x).detail == {"window": (4, 100)}
    finding = result_of("twonn", x)
    log_mu, survival = np.array(finding.detail["log_mu"]), np.array(finding.detail["minus_log_survival"])
    assert len(log_mu) == len(survival) > 100
    assert (survival @ log_mu) / (log_mu @ log_mu) == pytest.approx(finding.value, rel=0.05)
    assert finding.n == 296  # the five equal rows count once
    good = result_of("twonn", np.random.default_rng(0).uniform(size=(1000, 3))).detail["parts"]
    assert good["fit_distance"] < 2 * good["fit_distance_by_chance"] == pytest.approx(2.2 / 1000**0.5)


def test_zero_rows_have_no_direction_and_contributions_add_up(x):
    for slug in ("mean_cosine", "rogue_dimensions", "uniformity", "cosine_histogram"):
        assert result_of(slug, x).n == 295, slug
    assert result_of("mean_cosine", x).detail == {"zero_rows": 5}
    assert sum(result_of("cosine_histogram", x).detail["counts"]) == 295 * 294 / 2
    detail = result_of("rogue_dimensions", x).detail
    assert sum(detail["contributions"]) == pytest.approx(result_of("mean_cosine", x).value)
    assert detail["dimensions"][0] == {"dimension": 3, "value": result_of("rogue_dimensions", x).value}
    assert [entry["value"] for entry in detail["dimensions"]] == sorted(detail["contributions"], reverse=True)
    parts = result_of("hubness", x).detail["parts"]
    assert 0 < parts["robin_hood"] < 1
    assert 0 <= parts["antihubs"] < 1
    assert parts["greatest"] > 10


def test_cosines_are_also_counted_after_centering(x):
    detail = result_of("cosine_histogram", x).detail
    # without the zero rows
    centered = x[5:].astype(float) - x.astype(float).mean(0)
    units = centered / np.linalg.norm(centered, axis=1, keepdims=True)
    cosines = (units @ units.T)[np.triu_indices(295, 1)]
    counts, _ = np.histogram(cosines, detail["edges"])
    assert detail["centred"] == {
        "counts": counts.tolist(), "mean": pytest.approx(cosines.mean(), abs=1e-9), "rows": 295,
    }  # fmt: skip
    assert abs(detail["centred"]["mean"]) < 0.01 < result_of("mean_cosine", x).value
    detail = result_of("cosine_histogram", np.array([[4.0, 1], [5, 1], [6, 1]])).detail
    assert (detail["rows"], detail["centred"]["rows"], detail["centred"]["mean"]) == (3, 2, -1)
    assert detail["centred"]["counts"] == [1] + [0] * 99
    equal = result_of("cosine_histogram", np.full((30, 4), 0.1))
    assert (equal.score.value, equal.detail["centred"]) == (pytest.approx(1), None)


def test_both_partition_measures_agree_unless_points_are_long(x):
    assert math.log(result_of("partition", x).value) == pytest.approx(result_of("partition_log", x).value)
    reason = result_of("partition", np.full((60, 3), 1.7e308)).score.reason
    assert reason == "The partition function is not finite: some points are NaN, infinite or too large."
    far = 500 + points(50, 4)
    assert result_of("partition", far).score.reason.startswith("The partition ratio is exp(-")
    assert -2100 < result_of("partition_log", far).value < -1900


def test_prominent_bars_are_compared_with_equal_size_gaussian():
    """A Gaussian has few in the plane and hundreds in many dimensions, so the count alone says nothing of groups."""
    counts = {}
    for d in (2, 64):
        gaussian = result_of("prominent_bars", np.random.default_rng(1).normal(size=(300, d)))
        counts[d] = gaussian.detail["parts"]["gaussian_of_the_same_size"]
        assert gaussian.value == pytest.approx(counts[d], abs=30)
    assert counts[2] < 20
    assert counts[64] > 100
    x = points(300, 5)
    assert result_of("prominent_bars", x).detail == result_of("prominent_bars", 7 * x + 1).detail


def test_barcode_has_n_minus_1_bars_and_normalized_entropy(x):
    finding = result_of("barcode", x)
    assert len(finding.detail["lengths"]) == 299
    assert finding.detail["lengths"][-1] == finding.value
    nats, share = (
        result_of(slug, points(30, 3)).value for slug in ("persistent_entropy", "persistent_entropy_normalised")
    )
    assert share == pytest.approx(nats / math.log(29))


def test_isoscore_by_label_counts_rows_of_scored_classes():
    x = np.concatenate([points(40, 3), np.ones((5, 3)), points(3, 3, 1), points(9, 3, 2)])
    labels = ["many"] * 40 + ["equal"] * 5 + ["few"] * 3 + [""] * 9
    finding = result_of("isoscore_by_label", x, labels)
    assert (finding.n, finding.detail["classes_used"], finding.detail["classes"]) == (40, 1, 3)
    by_label = {entry["label"]: entry for entry in finding.detail["by_label"]}
    assert {label: entry["n"] for label, entry in by_label.items()} == {"many": 40, "equal": 5, "few": 3}
    assert finding.score.value == by_label["many"]["value"] is not None
    assert by_label["many"]["unbiased"] > by_label["many"]["value"]
    assert by_label["equal"]["reason"].startswith("The covariance is zero")
    small_class = by_label["few"]
    reason = "The score of a class needs at least 4 points; there are 3."
    assert (small_class["value"], small_class["unbiased"], small_class["reason"]) == (None, None, reason)


def test_class_scores_do_not_overflow_and_empty_classes_count(x, monkeypatch):
    far = (x * np.float32(1e20)).astype(np.float32)
    assert result_of("isoscore", far).value is not None
    assert result_of("isoscore_by_label", far, ["a"] * 300).value == pytest.approx(result_of("isoscore", far).value)
    monkeypatch.setattr(cloud, "SAMPLE_ROWS", 50)
    finding = result_of("isoscore_by_label", x, [str(max(i, 100)) for i in range(300)])
    assert finding.detail["classes"] == 200
    assert len(finding.detail["by_label"]) < 50
