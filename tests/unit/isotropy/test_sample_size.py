import json
from statistics import fmean, stdev

import numpy as np
import pytest
from scipy.stats import t as student
from scipy.stats import ttest_1samp

from isotropy import cloud as clouds
from isotropy import sample_size as module
from isotropy.cloud import read_cloud
from isotropy.isoscore import isoscore, isoscore_star
from isotropy.rows import Rows
from isotropy.sample_size import DRAWS, sample_size
from isotropy.tasks.bootstrap import mean, spearman_with
from isotropy.tasks.gains import gains
from isotropy.unbiased import isoscore_unbiased


def points(n, d, seed=0):
    return 3 + np.random.default_rng(seed).normal(size=(n, d)) * np.arange(1, d + 1)


def curve_of(x, seed=0):
    data = sample_size(read_cloud(Rows(x), seed))
    json.dumps(data, allow_nan=False)
    return data


def test_sizes_double_from_8_to_all_rows():
    data = curve_of(points(300, 5))
    assert data["rows"] == [8, 16, 32, 64, 128, 256, 300]
    # As many draws as fit in 256 consecutive rows, or for sizes below d in all rows.
    assert data["drawn"] == [10, 10, 8, 4, 2, 1, 1]
    assert (data["n"], data["draws"], data["zetas"], data["reason"]) == (300, 10, [0.2, 0.4, 0.6, 0.8], None)
    full, scores = data["full"], read_cloud(Rows(points(300, 5))).moment_scores
    assert full == {name: scores[name].value for name in ("isoscore", "isoscore_unbiased")}
    assert [curve["mean"][-1] for curve in (data["isoscore"], *data["isoscore_star"])] == [full["isoscore"]] * 5
    assert data["isoscore_unbiased"]["mean"][-1] == full["isoscore_unbiased"]
    assert data["isoscore"]["sd"][-1] is None


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_curve_is_mean_and_sd_over_draws(dtype):
    """Draws of 8 and 16 rows (below d = 20) use products, larger ones moments."""
    x = points(700, 20).astype(dtype)
    cloud = read_cloud(Rows(x))
    data = sample_size(cloud)
    S = cloud.moments.covariance()
    for i, (m, drawn) in enumerate(zip(data["rows"][:-1], data["drawn"], strict=False)):
        draws = [cloud.sample[k * m : (k + 1) * m].double() for k in range(drawn)]
        functions = {"isoscore": isoscore, "isoscore_unbiased": isoscore_unbiased}
        measures = {slug: [function(draw).value for draw in draws] for slug, function in functions.items()}
        for name, values in measures.items():
            assert data[name]["mean"][i] == pytest.approx(fmean(values), rel=1e-9), (m, name)
            assert data[name]["sd"][i] == (pytest.approx(stdev(values), rel=1e-6) if drawn > 1 else None), (m, name)
        for zeta, curve in zip(data["zetas"], data["isoscore_star"], strict=True):
            values = [float(isoscore_star(draw, zeta, S)) for draw in draws]
            assert curve["mean"][i] == pytest.approx(fmean(values), rel=1e-9), (m, zeta)
            assert curve["sd"][i] == (pytest.approx(stdev(values), rel=1e-6) if drawn > 1 else None), (m, zeta)
    assert data["drawn"] == [10, 10, 10, 8, 4, 2, 1, 1]


def test_few_rows_score_low_unless_shrunk_or_corrected():
    data = curve_of(points(20_000, 60).astype(np.float32))
    at = data["rows"].index(64)
    score_of_all = data["full"]["isoscore"]
    star = [curve["mean"][at] for curve in data["isoscore_star"]]
    assert data["isoscore"]["mean"][at] < 0.7 * score_of_all
    assert [data["isoscore"]["mean"][at], *star] == sorted([*star, data["isoscore"]["mean"][at]])
    error = data["isoscore_unbiased"]["sd"][at] / DRAWS**0.5
    bias = data["isoscore_unbiased"]["mean"][at] - data["full"]["isoscore_unbiased"]
    assert abs(bias) < 4 * error < 0.2 * score_of_all


def test_rows_are_drawn_by_seed():
    first, again, second = (curve_of(points(300, 5), seed) for seed in (0, 0, 1))
    assert first == again
    assert first["isoscore"]["mean"][0] != second["isoscore"]["mean"][0]
    assert first["full"] == pytest.approx(second["full"])


@pytest.mark.parametrize("n", [2, 3, 7, 8])
def test_up_to_8_rows_have_one_size(n):
    data = curve_of(points(n, 3))
    assert (data["rows"], data["drawn"], data["draws"]) == ([n], [1], 1)
    assert data["isoscore"]["mean"] == [data["full"]["isoscore"]] != [None]
    assert (data["isoscore_unbiased"]["mean"][0] is None) == (n < 4)


def test_few_rows_and_constant_dimension_score_low():
    data = curve_of(points(20, 100))
    assert (data["rows"], data["drawn"]) == ([8, 16, 20], [2, 1, 1])
    assert 0 < data["isoscore"]["mean"][0] < data["isoscore"]["mean"][1] < data["full"]["isoscore"]
    x = points(300, 4)
    x[:, 0] = 5
    assert curve_of(x)["full"]["isoscore"] < 2 / 3
    assert curve_of(x)["isoscore"]["mean"][3] < 2 / 3


def test_size_with_undefined_draw_has_no_mean():
    x = np.repeat(points(1, 3), 400, axis=0)
    x[:20] = points(20, 3, seed=1)
    data = curve_of(x)
    assert data["full"]["isoscore"] is not None
    # One of ten draws of 8 rows has equal rows, which score only with shrinkage; 256 rows always differ.
    assert (data["isoscore"]["mean"][0], data["isoscore"]["sd"][0]) == (None, None)
    assert data["isoscore_star"][0]["mean"][0] > 0
    assert data["isoscore"]["mean"][-2] > 0


@pytest.mark.parametrize(
    ("x", "reason"),
    [
        *(
            (x, "The covariance is zero: all points are equal, or there are fewer than two.")
            for x in (np.empty((0, 3)), np.ones((1, 3)), np.full((50, 3), 0.1))
        ),
        (np.arange(50.0)[:, None], "IsoScore needs at least 2 dimensions; there is 1."),
    ],
)
def test_undefined_isoscore_has_no_curve_but_a_reason(x, reason):
    data = curve_of(x)
    assert (data["rows"], data["drawn"], data["draws"], data["reason"]) == ([], [], 0, reason)
    assert data["full"]["isoscore"] is None
    assert data["isoscore_star"] == [{"mean": [], "sd": []}] * 4


def test_sample_and_work_limit_sizes_but_not_all_rows(monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(module, "MAX_WORK_BY_PRODUCTS", 20 * 30**2)
        data = curve_of(points(100, 30))
    assert (data["rows"], data["drawn"]) == ([8, 16, 32, 64, 100], [2, 1, 2, 1, 1])
    monkeypatch.setattr(clouds, "SAMPLE_ROWS", 100)
    assert curve_of(points(1000, 5))["rows"] == [8, 16, 32, 64, 1000]
    monkeypatch.setattr(module, "MAX_WORK", 40 * 5**2)
    data = curve_of(points(1000, 5))
    assert (data["rows"], data["drawn"]) == ([8, 16, 32, 1000], [4, 2, 1, 1])


SIMULATIONS = 150


@pytest.fixture
def random():
    return np.random.default_rng(4)


def test_gain_has_paired_t_interval_and_zero_for_identical_variant(random):
    base, change = random.random(60), random.normal(0.1, 0.2, 60)
    gain = gains(np.stack([base, base + change]), np.arange(60), mean, 0)[1]
    expected = ttest_1samp(change, 0).confidence_interval(0.95)
    assert gain.difference == pytest.approx(change.mean())
    assert (gain.low, gain.high) == pytest.approx((expected.low, expected.high), rel=0.03)
    base = random.random(50)
    twin, change = gains(np.stack([base, base, base[::-1]]), np.arange(50), mean, 0)[1:]
    assert twin == (0, 0, 0)
    assert change.low < 0 < change.high
    assert not twin.is_clear


def test_unrelated_variants_have_sidak_critical_value(random):
    m, variants = 400, 9
    values = np.concatenate([np.zeros((1, m)), random.normal(size=(variants, m))])
    reach = gains(values, np.arange(m), mean, 0)[1]
    error = values[1].std(ddof=1) / np.sqrt(m)
    sidak = student.ppf(1 - (1 - 0.95 ** (1 / variants)) / 2, m - 1)
    assert (reach.high - reach.low) / 2 / error == pytest.approx(sidak, rel=0.04)


def test_grouped_units_widen_interval(random):
    change = np.repeat(random.normal(0.1, 0.2, 30), 4)
    x, groupings = np.stack([np.zeros(120), change]), (np.arange(120), np.repeat(np.arange(30), 4))
    ungrouped, grouped = (gains(x, groups, mean, 0)[1] for groups in groupings)
    assert grouped.high - grouped.low == pytest.approx(2 * (ungrouped.high - ungrouped.low), rel=0.1)


@pytest.mark.slow
@pytest.mark.parametrize(("m", "changed"), [(40, 0.1), (120, 0.3)])
def test_false_gains_stay_within_level(random, m, changed):
    clear = 0
    for seed in range(SIMULATIONS):
        base = random.random(m)
        moved = random.random((7, m)) < changed
        values = np.concatenate([base[None], base + moved * random.choice([-1, 1], (7, m)) * random.random((7, m))])
        clear += any(gain.is_clear for gain in gains(values, np.arange(m), mean, seed))
    assert clear / SIMULATIONS <= 0.05


def test_rank_correlation_gain_is_detected(random):
    truth = random.normal(size=300)
    noisier, precise = (truth + sd * random.normal(size=300) for sd in (1.5, 0.5))
    shuffled = noisier + 0.01 * random.normal(size=300)
    same, better = gains(np.stack([noisier, shuffled, precise]), np.arange(300), spearman_with(truth), 0)[1:]
    assert better.is_clear
    assert not same.is_clear
