import json
from importlib import import_module

import numpy as np
import pytest

from isotropy.cloud import read_cloud
from isotropy.findings import Severity, findings_of
from isotropy.findings.finding import ExaminedCloud
from isotropy.findings.outlier_rows import outlier_rows
from isotropy.rows import Rows

FIVE = [3, 17, 400, 801, 1100]


def gaussian(n, d, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def find_outliers(x, **rows):
    return outliers_in(read_cloud(Rows(x, **rows)))


def outliers_in(cloud, *names):
    return [spike for spike in findings_of(cloud, *names) if spike.slug == "outlier_rows"]


def decaying(seed=0):
    return gaussian(1200, 64, seed) * np.arange(1, 65) ** -0.5


@pytest.mark.parametrize(("n", "d", "times"), [(300, 16, 15), (1000, 16, 20), (5000, 64, 30)])
def test_single_outlier_is_found_among_light_tails(n, d, times):
    x = gaussian(n, d)
    x[17] *= times
    (finding,) = find_outliers(x)
    assert (finding.rows, finding.severity) == ([17], Severity.WARNING)
    assert "(Student's t, 10 degrees of freedom)" in finding.evidence


@pytest.mark.parametrize("seed", range(4))
def test_five_outliers_are_named_with_score_without_them(seed):
    x = decaying(seed)
    healthy = read_cloud(Rows(np.delete(x, FIVE, axis=0))).moment_scores
    x[FIVE] *= 20
    (finding,) = find_outliers(x)
    assert (finding.slug, finding.severity) == ("outlier_rows", Severity.WARNING)
    assert (finding.rows, finding.row_count) == (FIVE, 5)
    squares = ((x - x.mean(0)) ** 2).sum(1)
    assert finding.title == f"5 rows hold {100 * squares[FIVE].sum() / squares.sum():.0f}% of the variance"
    assert finding.effect.after.value == pytest.approx(healthy[finding.effect.measure].value, rel=1e-9)


@pytest.mark.parametrize("times", [100, 1e3, 1e6, 1e9])
def test_huge_row_is_found_at_any_size(times):
    x = gaussian(600, 32)
    x[5] *= times
    (finding,) = find_outliers(x)
    assert (finding.severity, finding.rows) == (Severity.WARNING, [5])
    assert finding.title.startswith("1 row holds ")
    assert finding.effect.after.value == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize("count", [3, 12, 60])
def test_outliers_in_one_tight_group_do_not_hide_each_other(count):
    x = gaussian(1200, 64)
    x[100 : 100 + count] = 30 + 0.1 * gaussian(count, 64, 1)
    (finding,) = find_outliers(x)
    assert finding.severity is Severity.WARNING
    assert finding.rows == list(range(100, 100 + count))
    assert finding.effect.measure == "isoscore_unbiased"
    assert finding.effect.after.value == pytest.approx(1, abs=0.02)


@pytest.mark.slow
def test_outliers_keep_row_numbers_and_names():
    x = decaying()
    x[FIVE] *= 20
    x[[0, 50]] = np.nan
    cloud = read_cloud(Rows(x))
    (finding,) = outliers_in(cloud, lambda rows: [f"word {row}" for row in rows.tolist()])
    assert finding.rows == FIVE
    assert finding.names == [f"word {row}" for row in FIVE]
    document = json.loads(json.dumps(finding.to_dict(), allow_nan=False))
    assert (document["severity"], document["effect"]["measure"]) == ("warning", finding.effect.measure)
    x = gaussian(4000, 16)
    x[:300] *= 60
    (finding,) = find_outliers(x)
    assert (finding.row_count, finding.rows) == (300, list(range(100)))


def test_outliers_with_immaterial_effect_are_a_note(monkeypatch):
    monkeypatch.setattr(import_module("isotropy.findings.finding"), "MATERIAL", 2)
    x = decaying()
    x[FIVE] *= 20
    (finding,) = find_outliers(x)
    assert (finding.severity, finding.rows) == (Severity.NOTE, FIVE)


@pytest.mark.slow
def test_copies_and_groups_count_as_one_chance():
    copied_few = gaussian(60, 8)
    assert find_outliers(np.repeat(copied_few, 20, axis=0)) == []
    copied_few[[3, 9]] *= 300
    (finding,) = find_outliers(np.repeat(copied_few, 20, axis=0))
    assert finding.rows == [*range(60, 80), *range(180, 200)]
    x = gaussian(600, 8)
    assert find_outliers(x, row_groups=[f"{row // 6}" for row in range(600)]) == []
    x[60:66] *= 100
    (finding,) = find_outliers(x, row_groups=[f"{row // 6}" for row in range(600)])
    assert finding.rows == list(range(60, 66))


def healthy_clouds(n, d, rng):
    decay, spike = np.arange(1, d + 1) ** -0.5, np.append(10.0, np.ones(d - 1))
    heavy = np.sqrt(5 / rng.chisquare(5, size=(n, 1)))
    centers = 4 * rng.normal(size=(20, d))
    yield "Gaussian", rng.normal(size=(n, d))
    yield "anisotropic", rng.normal(size=(n, d)) * decay**2
    yield "one direction", rng.normal(size=(n, d)) * spike
    yield "t5", heavy * rng.normal(size=(n, d))
    yield "anisotropic t5", heavy * rng.normal(size=(n, d)) * decay
    yield "t5 coordinates", rng.standard_t(5, size=(n, d)) * spike
    yield "clusters", centers[rng.integers(20, size=n)] + rng.normal(size=(n, d))
    yield "far from the origin", rng.normal(size=(n, d)) + 30
    yield "varied norms", rng.normal(size=(n, d)) * np.exp(rng.normal(size=(n, 1)) / 2)


@pytest.mark.parametrize(("n", "d", "seed"), [(300, 16, 0), (300, 16, 1), (300, 128, 2), (2000, 64, 3), (20_000, 8, 4)])
def test_healthy_cloud_has_no_outlier_rows(n, d, seed):
    for name, x in healthy_clouds(n, d, np.random.default_rng((n, d, seed))):
        cloud = read_cloud(Rows(x.astype(np.float32)))
        assert outlier_rows(ExaminedCloud.from_cloud(cloud)) is None, name


@pytest.mark.parametrize(
    "x", [np.ones((50, 4)), np.eye(3), gaussian(40, 1), np.zeros((0, 3)), np.full((30, 2), np.nan)]
)
def test_degenerate_clouds_have_no_outlier_rows(x):
    assert find_outliers(x) == []
