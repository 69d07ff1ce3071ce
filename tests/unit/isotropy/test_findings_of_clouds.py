import json
from importlib import import_module

import numpy as np
import pytest
import torch

from isotropy.catalog.findings import FINDINGS
from isotropy.cloud import read_cloud
from isotropy.findings import CHECKS, Severity, findings_of
from isotropy.findings.finding import ExaminedCloud
from isotropy.findings.outlier_rows import outlier_rows
from isotropy.rows import Rows
from tests.planted import generated
from tests.points import random


def findings_by_slug(x, **rows):
    return {finding.slug: finding for finding in findings_of(read_cloud(Rows(x, **rows)))}


def first_finding(x, **rows):
    return next(iter(findings_by_slug(x, **rows).values()))


def cloud(n=1500, d=48, seed=0):
    return generated(random(seed), n, d)


def test_common_mean_reports_changed_neighbors():
    x = cloud() + 4 * cloud().std() * random(1).normal(size=48).astype(np.float32)
    finding = first_finding(x)
    assert (finding.slug, finding.severity, finding.effect.measure) == ("common_mean", Severity.WARNING, "top10_kept")
    assert (finding.rows, finding.dimensions) == ([], [])
    assert finding.effect.after.value < 0.7
    share = (x.mean(0) ** 2).sum() / (x**2).sum(1).mean()
    assert finding.title == f"The mean holds {100 * share:.0f}% of the energy"


@pytest.mark.slow
def test_rogue_dimensions_are_named_and_left_out_of_score():
    x = cloud()
    expected = read_cloud(Rows(np.delete(x, [3, 40], axis=1))).moment_scores["isoscore_unbiased"]
    x[:, [3, 40]] *= 30
    finding = findings_of(read_cloud(Rows(x)), dimension_names=[f"e{i}" for i in range(48)])[0]
    assert (finding.slug, finding.severity) == ("rogue_dimensions", Severity.WARNING)
    assert (finding.dimensions, finding.dimension_count, finding.dimension_names) == ([3, 40], 2, ["e3", "e40"])
    assert finding.effect.after.value == pytest.approx(expected.value, rel=1e-9)
    assert finding.effect.after.se == pytest.approx(expected.se, rel=1e-6)
    x = cloud()
    x[:, 7] += 30 * x.std()
    assert (first_finding(x).slug, first_finding(x).dimensions) == ("rogue_dimensions", [7])


def test_copies_except_first_are_named_despite_groups():
    x = cloud(400)
    x[300:] = x[:5].repeat(20, axis=0)
    finding = first_finding(x)
    assert (finding.slug, finding.severity, finding.row_count) == ("duplicate_rows", Severity.WARNING, 100)
    assert finding.rows == list(range(300, 400))
    # 105 of 400 rows have 20 copies each, which fill their 10 nearest neighbors.
    assert finding.effect.after.value == pytest.approx(1 - 105 / 400)
    x = cloud(300)
    x[200:] = x[:5].repeat(20, axis=0)
    assert first_finding(x, row_groups=[str(row // 2) for row in range(300)]).slug == "duplicate_rows"


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_has_copies_but_no_metadata(dtype):
    x = cloud(900)
    x[599] = x[5]
    x[600:] = torch.from_numpy(x[:300]).to(dtype).float().numpy()
    finding = first_finding(x)
    assert (finding.slug, finding.rows[-1], finding.row_count) == ("duplicate_rows", 698, 301)
    assert finding.all_rows.tolist() == [*range(599, 900)]
    sentence = "duplicates up to rounding (0.5% of their length), 1 of them exactly; one row occurs 3 times"
    assert sentence in finding.evidence
    x = cloud()
    x[:, 11] = 3000 + 200 * x[:, 11] / x[:, 11].std()
    findings = findings_by_slug(torch.from_numpy(x).to(dtype).float().numpy())
    assert "metadata_as_coordinates" not in findings
    assert findings["rogue_dimensions"].dimensions == [11]


@pytest.mark.parametrize("n", [500, 20_000])
def test_naturally_close_rows_are_no_copies(n):
    angles = random().uniform(0, 2 * np.pi, n)
    curve = np.stack([np.cos(angles), np.sin(angles), np.cos(3 * angles)], 1) @ random(1).normal(size=(3, 16))
    assert "duplicate_rows" not in findings_by_slug(curve)
    assert "duplicate_rows" not in findings_by_slug(random(2).normal(size=(n, 3)))


def test_too_few_rows_have_severity_by_shortage():
    assert first_finding(generated(random(), 150, 200, 0)).severity is Severity.WARNING
    finding = first_finding(generated(random(), 250, 100, 0))
    assert (finding.slug, finding.severity, finding.effect.measure) == ("too_few_rows", Severity.NOTE, "isoscore")
    assert finding.effect.before.value == pytest.approx(250 / 350, abs=0.02)
    assert finding.effect.after.value == pytest.approx(1, abs=0.03)
    finding = first_finding(cloud(60, 20), row_groups=[str(row % 3) for row in range(60)])
    assert (finding.slug, finding.severity) == ("too_few_rows", Severity.WARNING)
    assert finding.title == "Only 3 independent rows for 20 dimensions"


@pytest.mark.parametrize(("n", "severity"), [(1, Severity.ERROR), (2, Severity.WARNING), (7, Severity.WARNING)])
def test_seven_rows_are_always_too_few(n, severity):
    finding = first_finding(cloud(n, 200))
    assert (finding.slug, finding.severity, finding.effect.after.value) == ("too_few_rows", severity, None)
    assert finding.title == f"Only {n} {'row' if n == 1 else 'rows'} for 200 dimensions"


@pytest.mark.slow
def test_central_rows_are_hubs_and_slow_decay_has_none():
    x = cloud(d=96)
    x[[7, 70]] = x.mean(0) + 0.01 * x[[7, 70]]
    finding = first_finding(x)
    assert (finding.slug, finding.severity, finding.rows) == ("hubs", Severity.WARNING, [7, 70])
    assert finding.effect.after.value == pytest.approx(0.8, abs=0.03)
    x = cloud(2000, d=96)
    x[:40] = x.mean(0) + 0.02 * x[:40]
    finding = first_finding(x)
    assert (finding.slug, finding.severity, finding.rows) == ("hubs", Severity.WARNING, list(range(40)))
    assert finding.effect.after.value < 0.6
    assert "hubs" not in findings_by_slug(generated(random(5), 600, 400, 0.7))


@pytest.mark.parametrize(("n", "d"), [(20, 16), (24, 64), (30, 4)])
def test_few_rows_have_no_hubs(n, d):
    clouds = (random(seed).normal(size=(n, d)) for seed in range(8))
    assert [seed for seed, x in enumerate(clouds) if "hubs" in findings_by_slug(x)] == []


def test_cloud_of_few_directions_has_collapsed():
    low = random().normal(size=(1500, 5)) @ np.linalg.qr(random(1).normal(size=(40, 5)))[0].T
    finding = first_finding(low + 1e-3 * random(2).normal(size=low.shape))
    assert (finding.slug, finding.severity) == ("collapsed", Severity.WARNING)
    assert finding.title.startswith("5 directions hold ")
    assert finding.effect.before.value == pytest.approx(4 / 39, abs=0.01)
    assert finding.effect.after.value == pytest.approx(1, abs=0.02)
    line = first_finding(np.outer(random().normal(size=500), random(1).normal(size=16)))
    assert (line.slug, line.severity) == ("collapsed", Severity.WARNING)
    assert line.title.startswith("1 direction holds ")


@pytest.mark.parametrize("count", [5, 20])
def test_isotropic_clusters_are_neither_collapsed_nor_unrelated(count):
    centers = 3 * random(count).normal(size=(count, 128))
    x = centers[random(1).integers(count, size=800)] + random(2).normal(size=(800, 128))
    assert not {"collapsed", "unrelated_rows"} & findings_by_slug(x).keys()
    x = 1e-3 * x + centers[random(1).integers(count, size=800)]
    assert "collapsed" in findings_by_slug(x)


@pytest.mark.slow
def test_nearly_equal_rows_have_collapsed():
    nearly = first_finding(1e-3 * cloud() + 1)
    assert (nearly.slug, nearly.severity) == ("collapsed", Severity.WARNING)
    equal = first_finding(np.ones((50, 4)))
    assert (equal.slug, equal.severity, equal.title) == ("collapsed", Severity.ERROR, "All rows are equal")
    x = cloud(d=16).astype(np.float64) + 1e7
    far = first_finding(x)
    assert (far.slug, far.title) == ("collapsed", "All rows are nearly the same vector")
    assert first_finding(x.astype(np.float32)).title == "All rows are equal"
    assert first_finding(np.full((50, 4), 0.1)).title == "All rows are equal"


@pytest.mark.slow
def test_constant_dimensions_are_named_with_score_without_them():
    x = cloud(d=16)
    x[:, [2, 9]] = 0.5
    finding = first_finding(x)
    assert (finding.slug, finding.dimensions) == ("constant_dimensions", [2, 9])
    before, after = finding.effect.before.value, finding.effect.after.value
    # The participation ratio stays: (PR - 1) / 15 becomes (PR - 1) / 13.
    assert after == pytest.approx(before * 15 / 13, rel=1e-6)
    x = cloud(d=16).astype(np.float64)
    x[:, 3] += 1e7
    assert "constant_dimensions" not in findings_by_slug(x)
    assert findings_by_slug(x.astype(np.float32))["constant_dimensions"].dimensions == [3]
    x[:, [3, 5]] = 0.1, 1e6 + 0.1
    assert findings_by_slug(x)["constant_dimensions"].dimensions == [3, 5]


@pytest.mark.slow
def test_unequal_norms_name_their_rows():
    x = cloud()
    x[200:500] *= 20
    finding = first_finding(x)
    assert (finding.slug, finding.severity, finding.row_count) == ("unequal_norms", Severity.WARNING, 300)
    assert finding.rows == list(range(200, 300))
    x = (cloud() + 4 * cloud().std()) * np.exp(random(1).normal(size=(1500, 1)))
    assert read_cloud(Rows(x)).moment_scores["participation_ratio"].value < 3
    assert first_finding(x).slug == "unequal_norms"


@pytest.mark.slow
def test_clusters_are_no_mixture_and_mixtures_not_too_few_rows():
    x = cloud(200, 48)
    x[:90] += 8 * random(3).normal(size=48).astype(np.float32)
    findings = findings_by_slug(x)
    assert "mixed_clouds" in findings
    assert "too_few_rows" not in findings
    centers = 4 * random().normal(size=(12, 32))
    x = centers[random(1).integers(12, size=2000)] + random(2).normal(size=(2000, 32))
    assert "mixed_clouds" not in findings_by_slug(x)
    findings = [findings_by_slug(random(seed).normal(size=(60, 8)) ** 2 - 1) for seed in range(25)]
    assert sum("mixed_clouds" in finding for finding in findings) == 0


def test_finding_on_remaining_dimensions_states_them():
    x = cloud()
    x[:, 5] *= 12
    x += 0.9
    findings = findings_by_slug(x)
    assert findings["rogue_dimensions"].title.startswith("1 dimension holds ")
    assert findings["rogue_dimensions"].title.endswith(" of the variance")
    share = 100 * (x.mean(0) ** 2).sum() / (x**2).sum(1).mean()
    assert findings["common_mean"].title.endswith(f" of the energy (47 of 48 dimensions), {share:.0f}% with all")
    sentence = " Measured on the 47 of 48 dimensions that no other finding flags."
    assert findings["common_mean"].evidence.endswith(sentence)


@pytest.mark.parametrize("shift", [2.0, 8.0])
def test_rows_of_second_cloud_are_named(shift):
    x = cloud()
    expected = read_cloud(Rows(x[400:])).moment_scores["isoscore_unbiased"].value
    x[:400] += shift * random(3).normal(size=48).astype(np.float32)
    finding = first_finding(x)
    assert (finding.slug, finding.severity, finding.row_count) == ("mixed_clouds", Severity.WARNING, 400)
    assert finding.rows == list(range(100))
    assert finding.effect.after.value == pytest.approx(expected, rel=1e-6)


def labeled_parts(row_labels):
    x = cloud()
    x[:400] += 8 * random(3).normal(size=48).astype(np.float32)
    return findings_by_slug(x, row_labels=row_labels)["mixed_clouds"]


@pytest.mark.parametrize("classes", [["b"] * 400 + ["a"] * 1100, ["b"] * 400 + ["a", "c"] * 500 + [""] * 100])
def test_parts_explained_by_labels_are_a_note(classes):
    finding = labeled_parts(classes)
    assert (finding.severity, finding.row_count) == (Severity.NOTE, 400)
    assert ", by label: " in finding.title
    assert "100% of the rows lie in the part of their label" in finding.evidence
    assert finding.advice.startswith("Nothing is wrong where classes lie apart.")


@pytest.mark.parametrize(
    "classes",
    [["a", "b", "c"] * 500, [str(row) for row in range(1500)], ["a"] * 1500, ["a"] * 200 + ["b"] * 1300],
    ids=["unrelated labels", "one label per row", "one label", "labels that split a part"],
)
def test_labels_that_do_not_explain_parts_leave_warning(classes):
    finding = labeled_parts(classes)
    assert finding.severity is Severity.WARNING
    assert "label" not in finding.title + finding.evidence
    assert finding.advice == FINDINGS["mixed_clouds"].advice


@pytest.mark.parametrize(
    "values",
    [
        lambda n: random(5).permutation(n),
        lambda n: random(5).integers(0, 4, n),
        lambda n: random(5).uniform(5, 90, n).round(2),
        lambda n: random(5).lognormal(3, 1.2, n).round(2),
        lambda n: 1.6e9 + random(5).integers(0, 10**7, n),
        lambda n: np.linspace(0, 1, n),
        lambda n: random(5).uniform(0, 1, n).round(4),
        lambda n: random(5).integers(0, 4, n) / 3,
        lambda n: (random(5).poisson(80, n) - 80) / 80**0.5,
    ],
    ids=["ids", "labels", "prices", "skewed prices", "times", "row numbers", "scores", "scaled labels", "counts"],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_metadata_dimension_is_detected(values, dtype):
    x = cloud().astype(dtype)
    x[:, 11] = values(len(x))
    finding = first_finding(x)
    assert (finding.slug, finding.dimensions) == ("metadata_as_coordinates", [11])


@pytest.mark.slow
def test_metadata_is_judged_by_decimals_of_other_dimensions():
    x = cloud().astype(np.float64).round(6)
    assert "metadata_as_coordinates" not in findings_by_slug(x)
    x[:, 11] = random(5).uniform(0, 1, len(x)).round(3)
    assert (first_finding(x).slug, first_finding(x).dimensions) == ("metadata_as_coordinates", [11])
    x = np.maximum(cloud() - 2.5 * cloud().std(0), 0)
    assert "metadata_as_coordinates" not in findings_by_slug(np.where(np.arange(48) % 7 == 0, x, cloud()))
    assert "metadata_as_coordinates" not in findings_by_slug(np.round(100 * cloud()))


def test_nonfinite_rows_are_named():
    x = cloud()
    x[[3, 9], 4] = np.nan
    x[12, 5] = np.inf
    finding = first_finding(x)
    assert (finding.slug, finding.severity) == ("not_finite", Severity.WARNING)
    assert (finding.rows, finding.dimensions) == ([3, 9, 12], [4, 5])
    assert (finding.effect.before.value, finding.effect.after.value is None) == (None, False)
    assert first_finding(np.full((30, 2), np.nan)).severity is Severity.ERROR


def test_findings_are_json_with_catalog_advice():
    x = cloud()
    x[:, 3] *= 30
    x[5] = np.nan
    for finding in findings_of(read_cloud(Rows(x))):
        document = json.loads(json.dumps(finding.to_dict(), allow_nan=False))
        assert document["advice"] == FINDINGS[finding.slug].advice
    assert len(CHECKS) == 18


@pytest.mark.parametrize("x", [np.eye(3), random().normal(size=(40, 1)), np.zeros((0, 3)), np.ones((1, 2))])
def test_degenerate_clouds_raise_no_error(x):
    for finding in findings_of(read_cloud(Rows(x))):
        assert finding.severity in Severity


@pytest.mark.parametrize("kind", ["random", "counting"])
def test_rows_that_differ_in_one_dimension_are_not_equal(kind):
    x = torch.zeros(300, 8, dtype=torch.float64)
    x[:, 3] = torch.randn(300, generator=torch.Generator().manual_seed(0)) if kind == "random" else torch.arange(300.0)
    findings = findings_of(read_cloud(Rows(x.numpy())))
    assert not [finding for finding in findings if "equal" in finding.title]


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
