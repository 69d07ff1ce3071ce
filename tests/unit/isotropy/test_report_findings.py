"""What a report says beside its numbers: the rows behind them, and why there is none."""

import math

import numpy as np
import pytest

from isotropy.cloud import read_cloud
from isotropy.report import measure
from isotropy.rows import Rows

PARTITIONS = ["partition", "partition_log"]


def points(n, d, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def found(x, slugs, labels=None):
    return measure(read_cloud(Rows(x, labels)), slugs)


def test_moments_that_are_not_finite_leave_the_partition_function_undefined_for_that_reason():
    reason = "The partition function is not finite: some points are NaN, infinite or too large."
    for finding in found(1e200 * points(20, 3), PARTITIONS).values():
        assert (finding.score.value, finding.score.reason, finding.n) == (None, reason, 20)


def test_the_partition_function_of_long_points_has_a_logarithm_alone():
    reported = found(500 + points(50, 4), PARTITIONS)
    assert reported["partition"].score.reason.startswith("The partition ratio is exp(-")
    assert -2100 < reported["partition_log"].score.value < -1900


def test_the_rows_are_read_a_second_time_for_both_partitions_together():
    read = []
    cloud = read_cloud(Rows(points(50, 4)), progress=read.append)
    reported = measure(cloud, PARTITIONS)
    assert sum(read) == 2 * 50
    assert reported["partition"].score.value == pytest.approx(math.exp(reported["partition_log"].score.value))


def test_isoscore_by_label_is_of_the_rows_of_classes_that_have_a_score():
    x = np.concatenate([points(40, 3), np.ones((5, 3)), points(3, 3, 1), points(9, 3, 2)])
    labels = ["many"] * 40 + ["equal"] * 5 + ["few"] * 3 + [""] * 9
    finding = found(x, ["isoscore_by_label"], labels)["isoscore_by_label"]
    assert (finding.n, finding.detail["classes_used"], finding.detail["classes"]) == (40, 1, 3)
    by_label = {one["label"]: one for one in finding.detail["by_label"]}
    assert {label: one["n"] for label, one in by_label.items()} == {"many": 40, "equal": 5, "few": 3}
    assert finding.score.value == by_label["many"]["value"] is not None
    assert by_label["many"]["unbiased"] > by_label["many"]["value"]
    assert by_label["equal"]["reason"].startswith("The covariance is zero")
    few = by_label["few"]
    reason = "The score of a class needs at least 4 points; there are 3."
    assert (few["value"], few["unbiased"], few["reason"]) == (None, None, reason)


def test_rows_of_zeros_are_behind_no_measure_of_directions():
    x = np.concatenate([points(30, 3), np.zeros((6, 3))])
    reported = found(x, ["mean_cosine", "cosine_histogram", "uniformity"])
    assert {slug: finding.n for slug, finding in reported.items()} == dict.fromkeys(reported, 30)
    assert sum(reported["cosine_histogram"].detail["counts"]) == 30 * 29 // 2
    assert reported["cosine_histogram"].score.value == pytest.approx(reported["mean_cosine"].score.value)


def test_persistent_entropy_is_told_in_nats_and_as_a_share_of_that_of_equal_bars():
    reported = found(points(30, 3), ["persistent_entropy", "persistent_entropy_normalised"])
    values = {slug: finding.score.value for slug, finding in reported.items()}
    assert values["persistent_entropy_normalised"] == pytest.approx(values["persistent_entropy"] / math.log(29))
