import dataclasses
import json
import math
import re

import numpy as np
import pytest

from isotropy import cloud, report
from isotropy.catalog import GROUPS, MEASURES, Measure, directions, labels, neighbors, spread, topology
from isotropy.cloud import ZETA, read_cloud
from isotropy.findings import findings_of
from isotropy.projection import projection
from isotropy.report import measure
from isotropy.rows import Rows
from isotropy.sample_size import sample_size
from isotropy.score import OUT_OF_RANGE
from isotropy.spectrum import CHUNK_ROWS
from workers.embeddings.zeta_curves import compute_zeta_lines, covariance_in_units_of


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
    assert set(report.MEASURES) == set(MEASURES)
    points = read_cloud(Rows(x))
    assert list(measure(points)) == list(MEASURES)
    assert list(measure(points, ["twonn", "isoscore"])) == ["isoscore", "twonn"]
    assert list(measure(points, "isoscore_star")) == ["isoscore_star"]
    with pytest.raises(ValueError, match="There is no measure 'typo': choose among isoscore_unbiased, "):
        measure(read_cloud(Rows(x)), ["isoscore", "typo"])


@pytest.mark.parametrize("labels", [None, ["a", "b"] * 150])
def test_results_are_json_and_undefined_ones_have_a_reason(x, labels):
    for slug, finding in measure(read_cloud(Rows(x, labels))).items():
        json.dumps([finding.value, finding.detail], allow_nan=False)
        assert (finding.score.value is None) == (labels is None and MEASURES[slug].group == "labels"), slug
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
    nats = result_of("persistent_entropy", points(30, 3)).value
    share = result_of("persistent_entropy_normalised", points(30, 3)).value
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


def test_catalog_has_every_measure_in_its_group():
    groups = dict(zip(GROUPS, (spread, directions, neighbors, topology, labels), strict=True))
    assert list(groups) == ["spread", "directions", "neighbors", "topology", "labels"]
    filed = [(measure.slug, group) for group, module in groups.items() for measure in module.MEASURES]
    assert filed == [(slug, measure.group) for slug, measure in MEASURES.items()]
    texts = dataclasses.asdict(MEASURES["isoscore"])
    for name in ("formula", "range", "meaning", "pitfall", "citation"):
        with pytest.raises(TypeError, match=name):
            Measure(**{key: text for key, text in texts.items() if key != name})


OPTIONAL = ("value", "bias", "corrected", "listed_with", "training_caution", "variant_of")


def test_measure_texts_are_complete_single_lines():
    for entry in MEASURES.values():
        for name, text in dataclasses.asdict(entry).items():
            if not isinstance(text, str):
                continue
            assert text.strip() == text, entry.slug
            assert text or name in OPTIONAL, entry.slug
            assert "\n" not in text, entry.slug
        assert re.fullmatch(r"[a-z0-9_]{1,40}", entry.slug)
        assert entry.meaning.endswith("."), entry.slug
        assert entry.pitfall.endswith("."), entry.slug
        assert re.search(r"\((19|20)\d\d\)", entry.citation), entry.slug


ENDS = {
    "isoscore": (0, 1), "isoscore_star": (0, 1), "participation_ratio": (1, 50), "effective_rank": (1, 50),
    "effective_rank_lambda": (1, 50), "rankme": (1, 50), "stable_rank": (1, 50), "explained_variance": (0, 1),
    "mean_cosine": (-1 / 999, 1), "mean_share": (0, 1), "anisotropy_raw": (0, 1), "anisotropy_centred": (0, 1),
    "activation_profile": (0, 50), "cosine_histogram": (-1 / 999, 1), "rogue_dimensions": (-1 / 49_950, 1),
    "partition": (0, 1), "uniformity": (-8, 0), "persistent_entropy": (0, math.log(999)),
    "persistent_entropy_normalised": (0, 1), "prominent_bars": (1, 998), "silhouette": (-1, 1),
    "simplified_silhouette": (-1, 1), "isoscore_by_label": (0, 1),
}  # fmt: skip


def test_finite_ranges_have_numeric_bounds():
    assert {slug: measure.bounds_for(1000, 50) for slug, measure in MEASURES.items() if measure.bounds} == ENDS
    assert {slug for slug, measure in MEASURES.items() if "∞" not in measure.range} == set(ENDS)
    for entry in MEASURES.values():
        constant = re.match(r"[\[(](−?\d+), (−?\d+)[\])]", entry.range)
        if constant is not None:
            ends = tuple(int(end.replace("−", "-")) for end in constant.groups())
            assert entry.bounds_for(1000, 50) == entry.bounds_for(9, 500) == ends, entry.slug
    assert MEASURES["participation_ratio"].bounds_for(20, 50) == (1, 19)
    assert MEASURES["rankme"].bounds_for(20, 50) == (1, 20)


@pytest.mark.parametrize("n", [0, 1, 2])
def test_range_of_zero_length_has_no_bounds(n):
    without = {slug for slug in ENDS if MEASURES[slug].bounds_for(n, 1) is None}
    assert without >= {"effective_rank", "persistent_entropy", "prominent_bars"}


UNIT_POWERS = {"spectrum": 2, "barcode": 1, "activation_profile": 1}  # measures with units, and the power of the unit
PARTITIONS = {"partition", "partition_log"}
POWERS = (-1010, -600, -200, 200, 600, 1010)


def outlying_points(n=400, d=6):
    random = np.random.default_rng(0)
    x = random.standard_t(5, (n, d)) * np.arange(1, d + 1) ** -0.7 + 0.3
    x[7] = x[3]
    x[11] *= 40
    return x


LABELS = [str(i % 3) for i in range(400)]


@pytest.fixture(scope="module")
def ordinary():
    return measure(read_cloud(Rows(outlying_points(), LABELS)))


@pytest.mark.slow
@pytest.mark.parametrize("power", POWERS)
def test_measures_are_exact_at_every_scale(ordinary, power):
    results = measure(read_cloud(Rows(np.ldexp(outlying_points(), power), LABELS)))
    for slug, finding in results.items():
        if slug not in UNIT_POWERS.keys() | PARTITIONS:
            assert (slug, finding) == (slug, ordinary[slug])
    for slug, times in UNIT_POWERS.items():
        result, expected = results[slug].score, ordinary[slug].score
        if slug == "activation_profile":
            assert result == expected
            for column in ("mean", "std"):
                assert results[slug].detail[column] == np.ldexp(ordinary[slug].detail[column], power).tolist()
        elif abs(power * times) > 1010:
            assert (result.value, result.reason, results[slug].detail) == (None, OUT_OF_RANGE, None)
        else:
            assert result.value == math.ldexp(expected.value, power * times)
            assert result.se == (None if expected.se is None else math.ldexp(expected.se, power * times))
    if abs(power) < 500:
        eigenvalues = np.ldexp(ordinary["spectrum"].detail["eigenvalues"], 2 * power)
        assert results["spectrum"].detail["eigenvalues"] == eigenvalues.tolist()
    assert results["barcode"].detail["lengths"] == np.ldexp(ordinary["barcode"].detail["lengths"], power).tolist()


@pytest.mark.slow
@pytest.mark.parametrize("power", [-600, 600])
def test_figures_and_findings_do_not_depend_on_scale(power):
    x = outlying_points()
    plain, extreme = (read_cloud(Rows(result)) for result in (x, np.ldexp(x, power)))
    assert sample_size(extreme) == sample_size(plain)
    documents, expected = ([result.to_dict() for result in findings_of(cloud)] for cloud in (extreme, plain))
    assert documents == expected
    lines, expected = (compute_zeta_lines(cloud, [lambda S: S.diagonal().diag()]) for cloud in (extreme, plain))
    assert lines == expected
    drawn, expected = projection(extreme), projection(plain)
    assert (drawn["rows"], drawn["shares"]) == (expected["rows"], expected["shares"])
    np.testing.assert_allclose(drawn["x"], np.ldexp(expected["x"], power), rtol=2e-4)


@pytest.mark.parametrize(("power", "source"), [(600, 600), (-600, -600), (600, 599), (140, 160), (-160, -140)])
def test_curve_towards_other_points_keeps_relative_scale(power, source):
    def lines(power, source):
        cloud, baseline = (
            read_cloud(Rows(np.ldexp(outlying_points(), power))),
            read_cloud(Rows(np.ldexp(outlying_points() ** 3, source))),
        )
        S = covariance_in_units_of(cloud, baseline)
        (results,) = compute_zeta_lines(cloud, [lambda _: S])
        return np.array([result["values"] for result in results])

    np.testing.assert_allclose(lines(power, source), lines(0, source - power), rtol=1e-13)


@pytest.mark.parametrize(("power", "end"), [(-1000, -1), (1000, 0)])
def test_far_larger_covariance_dominates_curve(power, end):
    cloud, baseline = (
        read_cloud(Rows(np.ldexp(outlying_points(), power))),
        read_cloud(Rows(outlying_points()[::2] ** 3)),
    )
    S = covariance_in_units_of(cloud, baseline)
    values = compute_zeta_lines(cloud, [lambda _: S])[0][-1]["values"]
    assert values[1:-1] == pytest.approx([values[end]] * 99, rel=1e-12)
    assert values[0] != pytest.approx(values[-1], rel=1e-3)


def test_overflowing_coordinates_have_a_reason():
    x = np.array([[1.7e308, 1.7e308], [-1.7e308, -1.7e308], [1.6e308, 1.7e308]])
    data = projection(read_cloud(Rows(x)))
    assert (data["x"], data["reason"]) == ([], OUT_OF_RANGE)
    profile = measure(read_cloud(Rows(np.repeat(x[:2], 2, axis=0))), ["activation_profile"])["activation_profile"]
    assert (profile.score.reason, profile.detail) == (OUT_OF_RANGE, None)
    small, large = (measure(read_cloud(Rows(scale * outlying_points())), PARTITIONS) for scale in (1e-200, 1e200))
    assert (small["partition"].value, small["partition_log"].value) == (1, 0)
    assert large["partition"].score.reason.startswith("The partition ratio is exp(-")
    assert large["partition_log"].value < -1e200


@pytest.mark.parametrize("first", [0.0, 1e-200, 1e-320])
@pytest.mark.parametrize("power", [0, 600])
def test_far_larger_later_rows_count_fully(first, power):
    head, tail = first * np.ones((CHUNK_ROWS + 5, 3)), outlying_points(2000, 3)
    zeros = read_cloud(Rows(np.concatenate([0 * head, tail])), seed=3)
    results = read_cloud(Rows(np.concatenate([head, np.ldexp(tail, power)])), seed=3)
    for slug in ("isoscore", "participation_ratio", "mean_share"):
        assert results.moment_scores[slug].value == pytest.approx(zeros.moment_scores[slug].value, rel=1e-12)
    sample, expected = (results.sample * results.unit).numpy(), np.ldexp(zeros.sample.numpy(), power)
    np.testing.assert_allclose(sample, expected, rtol=1e-12, atol=1e-199)
    fourth = math.log2(results.moments.fourth_sum) + 4 * math.log2(results.unit)
    assert fourth == pytest.approx(math.log2(zeros.moments.fourth_sum) + 4 * power)


@pytest.mark.parametrize("power", [-100, 100])
def test_float32_is_measured_without_scaling(power):
    x = outlying_points().astype(np.float32)
    plain, extreme = (read_cloud(Rows(result)) for result in (x, np.ldexp(x, power)))
    assert extreme.unit == 1
    for slug in ("isoscore_unbiased", "effective_rank", "mean_cosine", "twonn"):
        assert measure(extreme, [slug])[slug] == measure(plain, [slug])[slug]
    assert compute_zeta_lines(extreme, [lambda S: S]) == compute_zeta_lines(plain, [lambda S: S])
