import numpy as np
import pytest
import torch

from isotropy.catalog import Similarity
from isotropy.cloud import read_cloud
from isotropy.findings import Severity, findings_of
from isotropy.findings.directions import local_relation
from isotropy.findings.empty_rows import CHANCE
from isotropy.findings.nearest import find_nearest, mean_overlap
from isotropy.rows import Rows
from tests.planted import draw_positions, generated
from tests.points import random


def findings_by_slug(x, **options):
    return {finding.slug: finding for finding in findings_of(read_cloud(Rows(x), **options))}


def first_finding(x):
    return next(iter(findings_by_slug(x).values()))


def cloud(n=600, d=32, decay=0.8, seed=0):
    return generated(random(seed), n, d, decay)


@pytest.mark.slow
def test_shard_indexed_twice_is_a_warning():
    x = cloud()
    finding = first_finding(np.concatenate([x, x[100:240]]))
    assert (finding.slug, finding.severity, finding.row_count) == ("duplicate_rows", Severity.WARNING, 140)
    assert finding.all_rows.tolist() == list(range(600, 740))
    small_shard = findings_by_slug(np.concatenate([x, x[100:118]]))["duplicate_rows"]
    assert (small_shard.severity, small_shard.row_count) == (Severity.NOTE, 18)


@pytest.mark.parametrize("size", [0.0, 1e-9])
def test_few_zero_rows_are_a_warning(size):
    x = cloud()
    rows = draw_positions(random(1), 600, 3)
    x[rows] *= size
    finding = first_finding(x)
    assert (finding.slug, finding.severity, finding.rows) == ("zero_rows", Severity.WARNING, rows.tolist())
    assert finding.effect.after.value == pytest.approx(1 - 3 / 600)


def test_zero_rows_of_sparse_counts_are_no_finding():
    x = random().poisson(0.5, (600, 8)).astype(np.float32)
    assert (~x.any(1)).sum() > 0
    assert "zero_rows" not in findings_by_slug(x)


@pytest.mark.parametrize("share", [0.01, 0.5, 0.9])
@pytest.mark.parametrize("fill", [0.0, -1.0])
def test_truncated_rows_name_missing_dimensions(share, fill):
    x = cloud()
    rows = draw_positions(random(1), 600, int(600 * share))
    x[rows, 20:] = fill
    finding = first_finding(x)
    assert (finding.slug, finding.severity, finding.row_count) == ("truncated_rows", Severity.WARNING, len(rows))
    assert (finding.all_rows.tolist(), finding.dimensions) == (rows.tolist(), list(range(20, 32)))
    assert "only the first 20 of 32 dimensions" in finding.title


@pytest.mark.parametrize(
    "values",
    [
        lambda x: np.maximum(x, 0),
        lambda x: np.round(3 * x),
        lambda x: x * (random(1).uniform(size=x.shape) < np.arange(x.shape[1], 0, -1) / x.shape[1]),
        lambda x: x * (random(1).uniform(size=x.shape) < random(2).uniform(0.02, 1, (len(x), 1))),
    ],
    ids=["rectified", "rounded", "later dimensions are rare", "some rows are sparse"],
)
def test_sparse_rows_are_not_truncated(values):
    assert "truncated_rows" not in findings_by_slug(values(cloud(2000)).astype(np.float32))
    assert CHANCE <= 0.001


def test_permuted_rows_are_named():
    x = cloud(1200, 128, 1.0)
    rows = draw_positions(random(1), 1200, 150)
    x[rows] = x[rows][:, random(2).permutation(128)]
    finding = first_finding(x)
    named_rows, planted_rows = set(finding.all_rows.tolist()), set(rows.tolist())
    assert (finding.slug, finding.severity) == ("unrelated_rows", Severity.WARNING)
    assert len(named_rows & planted_rows) >= 0.95 * len(named_rows | planted_rows)


@pytest.mark.slow
def test_rotated_rows_are_named_and_clusters_are_not():
    x = generated(random(3), 1200, 96, 1.0)
    rows = draw_positions(random(1), 1200, 400)
    x[rows] = x[rows] @ np.linalg.qr(random(2).standard_normal((96, 96)))[0].astype(np.float32)
    finding = first_finding(x)
    named_rows, planted_rows = set(finding.all_rows.tolist()), set(rows.tolist())
    assert finding.slug in ("unrelated_rows", "mixed_clouds")
    assert finding.severity is Severity.WARNING
    assert len(named_rows & planted_rows) >= 0.95 * len(named_rows | planted_rows)
    centers = 1.5 * random().standard_normal((12, 64))
    clusters = centers[random(1).integers(12, size=1000)] + cloud(1000, 64)
    assert "unrelated_rows" not in findings_by_slug(clusters.astype(np.float32))


@pytest.mark.parametrize("decay", [0.0, 1.0])
def test_rows_between_clusters_are_no_finding_unless_shuffled(decay):
    scales = np.arange(1, 65) ** (-decay / 2)
    x = (random().standard_normal((15, 64)) * scales)[random(1).integers(15, size=800)]
    x += 0.3 * scales * random(2).standard_normal((800, 64))
    rows = draw_positions(random(3), 800, 120)
    shuffled = x.copy()
    shuffled[rows] = random(4).permuted(x[rows], axis=1)
    x[rows] = random(5).standard_normal((120, 64)) * scales
    assert "unrelated_rows" not in findings_by_slug(x.astype(np.float32))
    if decay > 0:  # without decay, shuffling has no visible effect
        finding = findings_by_slug(shuffled.astype(np.float32))["unrelated_rows"]
        assert len(set(finding.all_rows.tolist()) & set(rows.tolist())) > 100


def test_local_relation_is_1_within_cloud_and_0_after_rotation():
    x = torch.from_numpy(generated(random(), 1500, 96, 1.0))
    units = torch.nn.functional.normalize(x)
    turn = torch.linalg.qr(torch.randn(96, 96, generator=torch.Generator().manual_seed(0)))[0]
    assert local_relation(units[:700], units[700:]).correlation == pytest.approx(1, abs=0.1)
    assert local_relation(units[:700], units[700:] @ turn).correlation == pytest.approx(0, abs=0.1)


@pytest.mark.parametrize("rounding", [torch.float32, torch.float16, torch.bfloat16])
def test_doubled_dimensions_except_first_are_named(rounding):
    x = cloud()
    again = torch.from_numpy(x[:, [4, 9, 9]]).to(rounding).float().numpy()
    finding = findings_by_slug(np.concatenate([x, again], axis=1))["doubled_dimensions"]
    assert (finding.dimensions, finding.severity) == ([32, 33, 34], Severity.WARNING)
    assert "32 repeats 4, 33 repeats 9" in finding.evidence
    assert "doubled_dimensions" not in findings_by_slug(np.concatenate([x, -x[:, :3]], axis=1))


@pytest.mark.parametrize("deviations", [1.0, 2.0])
def test_saturated_int8_is_named(deviations):
    x = cloud(1500, 24, 0.0)
    finding = first_finding((x / (deviations * x.std()) * 127).round().clip(-127, 127))
    assert (finding.slug, finding.dimension_count) == ("saturated_dimensions", 24)
    # Shares of a normal distribution beyond this many standard deviations.
    share = {1.0: "32%", 2.0: "4.7%"}[deviations]
    assert finding.evidence.startswith(f"In 24 of 24 dimensions {share} of the values")


@pytest.mark.parametrize(
    "values",
    [
        lambda x: (x / np.abs(x).max() * 127).round(),
        lambda x: np.maximum(x, 0),
        np.sign,
        lambda x: random(1).geometric(0.3, x.shape),
        lambda x: (x / x.std() * 3).round().clip(-7, 7),
    ],
    ids=["int8", "rectified", "signs", "waiting times", "int4"],
)
def test_naturally_bounded_codes_are_not_saturated(values):
    assert "saturated_dimensions" not in findings_by_slug(values(cloud(1500, 24, 0.0)).astype(np.float32))


def test_transposed_file_is_an_error_and_hides_other_findings():
    x = cloud(900, 48)
    x += 0.5 * x.std() * random(1).standard_normal(48).astype(np.float32)
    findings = findings_of(read_cloud(Rows(np.ascontiguousarray(x.T))))
    assert [(finding.slug, finding.severity) for finding in findings] == [("transposed", Severity.ERROR)]
    expected = read_cloud(Rows(x)).moment_scores["isoscore"].value
    assert findings[0].effect.after.value == pytest.approx(expected, rel=1e-6)
    x = cloud(900, 48)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    assert "Every column has length 1" in first_finding(np.ascontiguousarray(x.T)).evidence


@pytest.mark.slow
def test_few_rows_are_not_transposed():
    for seed in range(5):
        x = generated(random(seed), 60, 300, 1.2)
        assert "transposed" not in findings_by_slug(x @ np.linalg.qr(random(9).standard_normal((300, 300)))[0])
        assert "transposed" not in findings_by_slug(x + 3)


@pytest.mark.slow
def test_hubs_by_distance_are_a_note_unless_distance_is_used():
    x = generated(random(), 1500, 64, 0.5, heavy=True)
    by_cosine = findings_by_slug(x)["hubs"]
    assert by_cosine.severity is Severity.NOTE
    assert by_cosine.advice.startswith("Compare rows by cosine")
    by_distance = findings_by_slug(x, similarity=Similarity.EUCLIDEAN)["hubs"]
    assert (by_distance.severity, by_distance.rows) == (Severity.WARNING, by_cosine.rows)
    assert "hubs" not in findings_by_slug(generated(random(), 1500, 64, 0.5), similarity=Similarity.EUCLIDEAN)


def rows(n=300, d=12, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=(n, d)))


def by_definition(x, similarity):
    if similarity == "euclidean":
        near = -torch.cdist(x, x, compute_mode="donot_use_mm_for_euclid_dist")
    else:
        units = torch.nn.functional.normalize(x) if similarity == "cosine" else x
        near = units @ units.T
    near.fill_diagonal_(-torch.inf)
    return near.topk(10).indices.sort(1).values


def neighbors_of(x, similarity):
    positions = torch.arange(len(x))
    return find_nearest(x, positions, [(x, positions)], similarity).neighbors.sort(1).values


@pytest.mark.parametrize("similarity", Similarity)
@pytest.mark.parametrize("size", [1.0, 1e60, 1e-60], ids=["usual", "huge", "tiny"])
def test_neighbors_match_definition_at_any_scale(similarity, size):
    x = rows()
    assert torch.equal(neighbors_of(x * size, similarity), by_definition(x, similarity))


@pytest.mark.parametrize("similarity", Similarity)
def test_integers_beyond_float32_have_neighbors_of_float64(similarity):
    # Like ids or times: near 1e9, where adjacent float32 numbers are 64 apart.
    x = (rows() * 2e5).round() + 1e9
    same = (neighbors_of(x, similarity)[:, :, None] == by_definition(x, similarity)[:, None, :]).any(2)
    assert same.double().mean() > 0.99


def test_zero_and_huge_rows_do_not_affect_other_neighbors():
    x = rows()
    x[7] = 0
    assert torch.equal(neighbors_of(x, Similarity.COSINE)[:7], by_definition(x, "cosine")[:7])
    x = rows()
    x[0] *= 1e30
    assert torch.equal(neighbors_of(x, Similarity.EUCLIDEAN)[1:], by_definition(x, "euclidean")[1:])
    assert mean_overlap(x, x, 100) == (1.0, 0.0)
