import json
from dataclasses import asdict

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from isotropy.catalog import Similarity
from isotropy.catalog.calibration import PROMISES, PromiseKind
from isotropy.cloud import read_cloud
from isotropy.findings import Severity
from isotropy.findings.drift import SharedRows, drift
from isotropy.rows import Rows
from isotropy.tasks.calibrate import calibrate
from isotropy.tasks.cutoffs import cutoff_unit, find_cutoff
from isotropy.tasks.judge import JudgingTask
from isotropy.tasks.labeled_pairs import MatchScoreError, label_pairs
from isotropy.tasks.parts import TaskPart
from isotropy.tasks.truth import LabelTruth, PairTruth, QueryTruth
from tests.planted import generated
from tests.points import random

D = 24


def scored_pairs(n, width=1.0, mean=0.0, seed=0):
    """Return a corpus with a wide first dimension and a mean, and n pairs, alternately a match and not."""
    random = np.random.default_rng(seed)
    first = random.normal(size=(n, D))
    is_match = np.arange(n) % 2 == 0
    second = np.where(is_match[:, None], first, 0) + random.normal(size=(n, D))
    corpus = np.concatenate([first, second])
    corpus[:, 0] *= width
    rows = np.arange(2 * n).reshape(2, -1).T
    return (corpus + mean).astype(np.float32), PairTruth(rows, is_match.astype(float))


def cutoffs_of(calibration, space=-1):
    return {(cutoff.kind, cutoff.promise): cutoff for cutoff in calibration.spaces[space].cutoffs}


@pytest.mark.parametrize("space", [0, 1])
@pytest.mark.parametrize("similarity", Similarity)
def test_numpy_code_takes_as_many_pairs_as_reported(similarity, space, tmp_path, monkeypatch):
    corpus, truth = scored_pairs(1_000, width=8, mean=2)
    task = JudgingTask(corpus, truth, similarity)
    calibration, mapping = calibrate(task)
    assert calibration.chosen > 0
    monkeypatch.chdir(tmp_path)
    save_file(mapping.tensors(), "map.safetensors")
    pairs = label_pairs(corpus, truth, task.seed)
    for cutoff in cutoffs_of(calibration, space).values():
        if cutoff.cutoff is None:
            continue
        assert f"{cutoff.cutoff:.10g}" in cutoff.sentence
        assert len(cutoff.code.splitlines()) <= 18
        names = {}
        exec(cutoff.code, names)
        is_taken = names["is_match"](pairs.first_vectors[pairs.rows[:, 0]], pairs.second_vectors[pairs.rows[:, 1]])
        for rate, is_kind in ((cutoff.misses, pairs.is_match), (cutoff.false_matches, ~pairs.is_match)):
            observed = (is_taken != pairs.is_match)[is_kind & (pairs.parts == TaskPart.REPORT)]
            assert (rate.pairs, rate.value) == (len(observed), pytest.approx(observed.mean()))
        matching = pairs.is_match[is_taken & (pairs.parts == TaskPart.REPORT) & pairs.is_drawn]
        assert (cutoff.precision.pairs, cutoff.precision.value) == (len(matching), pytest.approx(matching.mean()))
        errors = ~is_taken if cutoff.kind is PromiseKind.MISS else is_taken
        set_by = (pairs.parts == TaskPart.CHOOSE) & (pairs.is_match == (cutoff.kind is PromiseKind.MISS))
        assert errors[set_by].mean() < cutoff.promise
        assert set_by.sum() == cutoff.labels


def test_clear_remedy_is_advised_with_held_out_shares():
    corpus, truth = scored_pairs(1_000, width=8)
    calibration, _ = calibrate(JudgingTask(corpus, truth))
    baseline, chosen = (calibration.variants[index].finding for index in (0, calibration.chosen))
    assert calibration.false_match_rate == 0.05  # of 300 other pairs, 3 would pass at .01
    assert chosen.gain_low > 0
    sentence = f"at 5% false matches you find {chosen.report:.0%} of matches instead of {baseline.report:.0%}"
    assert sentence in calibration.comparison
    assert calibration.conclude(PromiseKind.MISS, 0.05).startswith(calibration.comparison)
    assert [space.name for space in calibration.spaces] == ["as it is", calibration.variants[calibration.chosen].name]
    assert calibration.spaces[1].confidence > calibration.spaces[0].confidence == 0.95
    assert json.loads(json.dumps(asdict(calibration), allow_nan=False))["chosen"] == calibration.chosen


def test_isotropic_vectors_are_kept():
    calibration, _ = calibrate(JudgingTask(*scored_pairs(1_000)))
    assert calibration.chosen == 0
    assert calibration.comparison == "No remedy clearly finds more matches at 5% false matches."


def test_too_few_labels_are_counted():
    calibration, _ = calibrate(JudgingTask(*scored_pairs(120)))
    cutoffs = cutoffs_of(calibration)
    reached = {key for key, cutoff in cutoffs.items() if cutoff.cutoff is not None}
    assert reached == {(kind, 0.1) for kind in PromiseKind}
    miss = cutoffs[PromiseKind.MISS, 0.05]
    assert (miss.labels_needed, miss.code) == (59, None)
    assert miss.sentence == (
        "No cutoff can promise that at most 5% of matches are missed. That takes about 99 labeled matches that share "
        f"nothing, and there are 60. 10% can be promised, with a cosine of at least "
        f"{cutoffs[PromiseKind.MISS, 0.1].cutoff:.10g}."
    )
    fewer, _ = calibrate(JudgingTask(*scored_pairs(60)))
    assert all(cutoff.cutoff is None for cutoff in cutoffs_of(fewer).values())
    assert fewer.comparison == "There are too few labels to compare remedies."


def test_unusable_labels_are_refused():
    corpus, truth = scored_pairs(100)
    graded = PairTruth(truth.rows, np.linspace(0, 5, 100))
    for refused, match, words in (
        (PairTruth(truth.rows[:49], truth.scores[:49]), None, "at least 50 labeled pairs, got 49"),
        (graded, 6, "No pair matches"),
        (graded, 0, "All 100 pairs match"),
        (PairTruth(truth.rows, truth.scores, np.zeros(100, np.int64)), None, "25 independent groups"),
        (LabelTruth(np.arange(200), np.arange(200) % 2, ["x"] * 200), 1, "only for pairs with scores"),
    ):
        with pytest.raises(ValueError, match=words):
            label_pairs(corpus, refused, 0, match)
    with pytest.raises(MatchScoreError, match="Scores run from 0 to 5"):
        label_pairs(corpus, graded, 0)
    assert label_pairs(corpus, graded, 0, 4).source.labeled_matches == 20


@pytest.mark.parametrize("mean", [0.0, 1.0])
def test_random_pairs_of_gaussian_clouds_match_closed_form(mean):
    random = np.random.default_rng(5)
    n, d = 4_000, 100
    corpus = (random.normal(size=(n, d)) + mean).astype(np.float32)
    truth = PairTruth(np.arange(n).reshape(-1, 2), np.arange(n // 2) % 2.0)
    random_pairs = calibrate(JudgingTask(corpus, truth))[0].variants[0].random
    # Of x = m + e and y = m + f, with s = m · m: to first order in m · e, m · f, e · f, |e|² - d and |f|² - d.
    square = d * mean**2
    total = d + square
    variance = 2 * square * (d / total**2) ** 2 + d / total**2 + (square / total) ** 2 * d / total**2
    assert random_pairs.pairs == 10_000
    assert random_pairs.mean == pytest.approx(square / total, abs=0.005)
    assert random_pairs.sd == pytest.approx(variance**0.5, rel=0.04)
    assert random_pairs.quantiles["0.5"] == pytest.approx(random_pairs.mean, abs=0.01)


def test_pairs_that_share_a_row_count_once():
    corpus, _ = scored_pairs(300)
    hub = np.stack([np.repeat(np.arange(100), 3), 300 + np.arange(300)], axis=1)
    pairs = label_pairs(corpus, PairTruth(hub, np.arange(300) % 3 == 0), 0)
    assert (pairs.source.labeled, pairs.source.labeled_matches) == (300, 100)
    assert (pairs.source.independent_matches, pairs.source.independent_non_matches) == (100, 100)
    assert len(np.unique(pairs.groups[pairs.is_drawn])) == pairs.is_drawn.sum() == 100
    assert {len(set(pairs.parts[pairs.groups == group])) for group in range(100)} == {1}
    assert 20 < pairs.is_match[pairs.is_drawn].sum() < 47  # a third of all pairs match


def test_maps_never_learn_from_pairs_that_choose_or_report():
    corpus, truth = scored_pairs(200)
    pairs = label_pairs(corpus, truth, 0)
    rows = pairs.rows[pairs.parts != TaskPart.FIT]
    held_out = np.concatenate([pairs.first_vectors[rows[:, 0]], pairs.second_vectors[rows[:, 1]]])
    assert len(pairs.fit_points) == 80
    assert not {x.tobytes() for x in pairs.fit_points} & {x.tobytes() for x in held_out}


def test_labels_pair_each_row_once():
    random = np.random.default_rng(1)
    corpus = random.normal(size=(900, D)).astype(np.float32)
    corpus[800:] = corpus[:100]  # copies count once
    codes = np.concatenate([random.integers(0, 3, 800), np.zeros(100, np.int64)])
    codes[800:] = codes[:100]
    truth = LabelTruth(np.arange(900), codes, [str(row) for row in range(900)])
    pairs = label_pairs(corpus, truth, 0)
    first, second = pairs.first_vectors[pairs.rows[:, 0]], pairs.second_vectors[pairs.rows[:, 1]]
    vectors = [x.tobytes() for x in np.concatenate([first, second])]
    assert len(set(vectors)) == len(vectors)
    code_of = dict(zip((x.tobytes() for x in corpus), codes.tolist(), strict=True))
    same = np.array([code_of[a.tobytes()] == code_of[b.tobytes()] for a, b in zip(first, second, strict=True)])
    np.testing.assert_array_equal(same, pairs.is_match)
    assert 180 <= pairs.is_match.sum() <= 200
    assert 180 <= (~pairs.is_match).sum() <= 200


def test_other_documents_of_queries_are_not_relevant():
    random = np.random.default_rng(1)
    corpus = random.normal(size=(60, D)).astype(np.float32)
    corpus[30:] = corpus[:30]  # each relevant document has a copy, which is no other document
    relevant = [{query % 30: 1} for query in range(90)]
    truth = QueryTruth(random.normal(size=(90, D)).astype(np.float32), relevant, [str(row) for row in range(60)])
    pairs = label_pairs(corpus, truth, 0)
    assert (pairs.source.independent_matches, pairs.source.documents) == (30, 60)
    queries = {x.tobytes(): index for index, x in enumerate(truth.vectors)}
    for (first, second), is_match in zip(pairs.rows, pairs.is_match, strict=True):
        (row,) = relevant[queries[pairs.first_vectors[first].tobytes()]]
        assert (pairs.second_vectors[second] == corpus[row]).all() == is_match
    calibration, _ = calibrate(JudgingTask(corpus, truth))
    assert calibration.pairs.matches == "queries with a relevant document"
    assert all(cutoff.precision is None for cutoff in calibration.spaces[0].cutoffs)


def test_constant_similarity_and_zero_vectors_give_cutoffs():
    corpus, truth = scored_pairs(400)
    same = np.ones_like(corpus)
    calibration, _ = calibrate(JudgingTask(same, PairTruth(truth.rows, truth.scores, np.arange(400))))
    cutoffs = cutoffs_of(calibration)
    miss, false_match = (cutoffs[kind, 0.1] for kind in PromiseKind)
    assert (miss.misses.value, miss.false_matches.value) == (0, 1)
    assert (false_match.misses.value, false_match.false_matches.value) == (1, 0)
    assert miss.sentence.endswith("That is hardly better than chance.")
    assert [point.share for point in calibration.spaces[0].curve] == [pytest.approx(0.5, abs=0.1)]
    corpus[truth.rows[::10].ravel()] = 0
    calibration, _ = calibrate(JudgingTask(corpus, PairTruth(truth.rows, truth.scores, np.arange(400))))
    json.dumps(asdict(calibration), allow_nan=False)


@pytest.mark.parametrize("kind", PromiseKind)
def test_ties_only_lower_the_rate(kind):
    random = np.random.default_rng(2)
    population = random.normal(size=200_000).astype(np.float16).round(1).astype(np.float64)
    for promise in PROMISES:
        keeps_promise = []
        for _ in range(200):
            labels = random.choice(population, 400)
            cutoff = find_cutoff(labels, kind, promise, cutoff_unit(labels))
            is_wrong = population < cutoff if kind is PromiseKind.MISS else population >= cutoff
            keeps_promise.append(is_wrong.mean() <= promise)
        assert np.mean(keeps_promise) >= 0.92, promise


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e9])
def test_cutoffs_are_rounded_to_the_safe_side(scale):
    labels = scale * np.random.default_rng(3).normal(0.5, 0.1, 100)
    unit = cutoff_unit(labels)
    lower, upper = (find_cutoff(labels, kind, 0.05, unit) for kind in PromiseKind)
    assert labels.min() - 2 * unit < lower < np.sort(labels)[1]
    assert np.sort(labels)[-2] < upper < labels.max() + 2 * unit
    assert len(f"{upper:.10g}".replace("e+", "").replace("e-", "")) <= 11


def cloud(n, d=48):
    return generated(random(), n, d)


def shared(now, before):
    return SharedRows(torch.from_numpy(now), torch.from_numpy(before))


def with_copies(x):
    x[600:] = x[0]
    return x


@pytest.mark.slow
@pytest.mark.parametrize(
    "x",
    [
        with_copies(cloud(800)),
        np.repeat(cloud(25), 40, axis=0),
        np.sign(cloud(800, 16)),
        np.where(np.arange(800)[:, None] % 5, cloud(800), 0),
    ],
    ids=["one row repeated", "40 copies of each row", "signs", "zero rows"],
)
def test_rounding_that_reorders_copies_is_no_drift(x):
    again = (x + 1e-6 * x.std() * random(1).normal(size=x.shape)).astype(np.float32)
    assert (again != x).mean() > 0.1
    assert drift(read_cloud(Rows(again)), read_cloud(Rows(x)), shared(again, x)) is None
    mixed = random(2).permutation(x)
    assert drift(read_cloud(Rows(x)), read_cloud(Rows(x)), shared(mixed, x)).effect.measure == "top10_kept"


def test_shift_is_drift_and_new_sample_is_not():
    x = cloud(1600)
    first, second = read_cloud(Rows(x[:800])), read_cloud(Rows(x[800:]))
    assert drift(first, second) is None
    moved = drift(read_cloud(Rows(x[800:] + 0.7 * x.std())), first)
    assert (moved.slug, moved.severity, moved.effect.measure) == ("drift", Severity.WARNING, "energy_distance")
    assert 0.05 < moved.effect.after.value < 1


def test_shared_rows_are_compared_by_their_neighbors():
    x = cloud(600).astype(np.float64)
    reference = read_cloud(Rows(x))
    turned = x @ np.linalg.qr(random(1).normal(size=(48, 48)))[0]
    same = drift(read_cloud(Rows(x)), reference, shared(x, x))
    assert same is None
    # A rotation keeps all neighbors, and only the energy distance sees it.
    rotated = drift(read_cloud(Rows(turned + 1)), reference, shared(turned, x))
    assert rotated.effect.measure == "energy_distance"
    shuffled = drift(reference, reference, shared(x, random(2).permutation(x)))
    assert (shuffled.severity, shuffled.effect.measure) == (Severity.WARNING, "top10_kept")
    assert shuffled.effect.after.value == pytest.approx(10 / 599, abs=0.01)
