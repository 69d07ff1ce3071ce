from dataclasses import replace

import numpy as np
import pytest
from scipy.linalg import orthogonal_procrustes
from scipy.stats import binomtest, spearmanr
from sklearn.linear_model import Ridge
from sklearn.neighbors import KNeighborsClassifier

from isotropy.catalog import Similarity
from isotropy.tasks.bridges import PENALTIES, fit_bridges
from isotropy.tasks.judge import JudgingTask
from isotropy.tasks.parts import TaskPart
from isotropy.tasks.search import prepare
from isotropy.tasks.truth import LabelTruth, PairTruth, QueryTruth, exact_neighbors
from isotropy.tasks.upgrade import UpgradeTask, judge_upgrade

N, M, D = 400, 250, 16
IDS = [str(row) for row in range(N)]


@pytest.fixture
def random():
    return np.random.default_rng(20_261_127)


def draw(random, n, d=D):
    return (random.normal(size=(n, d)) * np.linspace(2, 0.5, d) + 0.4).astype(np.float32)


def draw_rotation(random, d=D):
    return np.linalg.qr(random.normal(size=(d, d)))[0].astype(np.float32)


def search(queries, rows, similarity):
    q, x = (prepare(points, similarity).astype(np.float64) for points in (queries, rows))
    distances = ((q[:, None] - x) ** 2).sum(2) if similarity is Similarity.EUCLIDEAN else -(q @ x.T)
    return np.argsort(distances, axis=1, kind="stable")[:, :10]


def shared(first, second):
    return np.mean([len(set(a) & set(b)) / 10 for a, b in zip(first, second, strict=True)])


def task_of(old, new, similarity=Similarity.COSINE):
    """Return the task of old and new vectors [N + M, d]: rows of the corpus, then of the queries."""
    judging = JudgingTask(old[:N], exact_neighbors(old[:N], old[N:], IDS, similarity), similarity)
    return UpgradeTask(judging, new[:N], new[N:], texts=N, unsampled_corpus=old[:0])


@pytest.mark.parametrize("new_dimensions", [10, 16, 23])
def test_procrustes_matches_scipy_on_padded_vectors(random, new_dimensions):
    old, new = draw(random, N), draw(random, N, new_dimensions)
    width = max(D, new_dimensions)
    padded = [np.pad(x.astype(np.float64), ((0, 0), (0, width - x.shape[1]))) for x in (new, old)]
    rotation, _ = orthogonal_procrustes(*padded)
    bridge = next(fit_bridges(new, old, Similarity.DOT))
    np.testing.assert_allclose(bridge.matrix, rotation[:new_dimensions, :D], atol=1e-9)
    np.testing.assert_allclose(bridge.apply(new), (padded[0] @ rotation)[:, :D], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("rows", [N, 12])  # 12 rows are fewer than dimensions
def test_ridge_matches_scikit_learn(random, rows):
    old, new = draw(random, rows), draw(random, rows, 14)
    variance = new.astype(np.float64).var(0).mean()
    for penalty, bridge in zip(PENALTIES, [*fit_bridges(new, old, Similarity.EUCLIDEAN)][1:], strict=True):
        ridge = Ridge(alpha=rows * penalty * variance, solver="svd").fit(new.astype(np.float64), old.astype(np.float64))
        np.testing.assert_allclose(bridge.apply(new), ridge.predict(new.astype(np.float64)), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("similarity", Similarity)
def test_rotation_is_bridged_without_loss(random, similarity):
    old = draw(random, N + M)
    upgrade, bridge = judge_upgrade(task_of(old, old @ draw_rotation(random), similarity))
    assert (upgrade.kept_old.value, upgrade.kept_new.value) == (1, 1)
    assert (upgrade.verdict, bridge.penalty) == ("bridge", None)


def test_principal_components_are_bridged_to_their_search(random):
    old = draw(random, N + M)
    parts = task_of(old, old, Similarity.DOT).old.parts
    fit_texts = np.concatenate([old[:N], old[N:][parts == TaskPart.FIT]]).astype(np.float64)
    axes = np.linalg.svd(fit_texts, full_matrices=False)[2][:8]
    upgrade, bridge = judge_upgrade(task_of(old, (old @ axes.T).astype(np.float32), Similarity.DOT))
    np.testing.assert_allclose(bridge.matrix, axes, atol=1e-5)
    # A query in the subspace has the same products with old vectors as with their components.
    assert (upgrade.kept_new.value, upgrade.verdict) == (1, "bridge")
    queries = old[N:][parts == TaskPart.REPORT]
    projected = search((queries @ axes.T @ axes).astype(np.float32), old[:N], Similarity.DOT)
    assert upgrade.kept_old.value == pytest.approx(shared(search(queries, old[:N], Similarity.DOT), projected))
    assert upgrade.kept_old.value < 0.9


def test_unrelated_model_is_not_bridged(random):
    upgrade, _ = judge_upgrade(task_of(draw(random, N + M), random.normal(size=(N + M, D)).astype(np.float32)))
    assert upgrade.kept_old.low < 3 * 10 / N
    assert upgrade.kept_old.high < 0.2
    assert (upgrade.verdict, upgrade.conclusion.split()[0]) == ("re-embed", "Re-embed.")


@pytest.mark.parametrize("similarity", Similarity)
def test_kept_shares_match_exhaustive_search(random, similarity):
    old = draw(random, N + M)
    new = (old @ random.normal(size=(D, 20)) + random.normal(size=(N + M, 20))).astype(np.float32)
    task = task_of(old, new, similarity)
    unsampled_corpus = draw(random, 150)
    upgrade, bridge = judge_upgrade(task._replace(unsampled_corpus=unsampled_corpus))
    reporting = task.old.parts == TaskPart.REPORT
    bridged = bridge.apply(new[N:][reporting])
    stored = np.concatenate([old[:N], unsampled_corpus])
    expected_old = shared(search(old[N:][reporting], stored, similarity), search(bridged, stored, similarity))
    expected_new = shared(search(new[N:][reporting], new[:N], similarity), search(bridged, old[:N], similarity))
    assert upgrade.kept_old.value == pytest.approx(expected_old, abs=1e-9)
    assert upgrade.kept_new.value == pytest.approx(expected_new, abs=1e-9)
    assert 0.2 < expected_old < 0.99
    assert (upgrade.n, upgrade.sampled) == (N + 150, N)


def test_bridge_is_fitted_without_judged_texts_and_copies(random):
    old = draw(random, N + M)
    old[:20] = old[N : N + 20]  # the corpus has copies of queries
    task = task_of(old, draw(random, N + M))
    judged = (task.old.parts != TaskPart.FIT).nonzero()[0]
    assert judge_upgrade(task)[0].fit_texts == N + M - len(judged) - (judged < 20).sum()


def test_label_vote_of_bridged_rows_matches_scikit_learn(random):
    old = draw(random, N)
    labels = (old[:, 0] > 0.4).astype(np.int64)
    new = (old @ random.normal(size=(D, 12)) + 0.3 * random.normal(size=(N, 12))).astype(np.float32)
    judging = JudgingTask(old, LabelTruth(np.arange(N), labels, IDS), Similarity.EUCLIDEAN)
    upgrade, bridge = judge_upgrade(UpgradeTask(judging, new, None, texts=N, unsampled_corpus=old[:0]))
    fit, report = (judging.parts == part for part in (TaskPart.FIT, TaskPart.REPORT))
    votes = KNeighborsClassifier(10).fit(old[fit], labels[fit]).predict_proba(bridge.apply(new[report]))
    accuracy = (votes.argmax(1) == labels[report])[votes[:, 0] != 0.5].mean()
    assert upgrade.scores["bridged"].value == pytest.approx(accuracy, abs=0.05)
    assert upgrade.kept_old is None
    assert upgrade.kept_score.value == pytest.approx(upgrade.scores["bridged"].value / upgrade.scores["new"].value)
    assert upgrade.fit_texts == fit.sum()


def test_pairs_compare_bridged_with_old_vectors(random):
    old = draw(random, N)
    new = (old @ draw_rotation(random) + 0.5 * random.normal(size=(N, D))).astype(np.float32)
    pairs = random.permutation(N).reshape(-1, 2)
    cosines = (prepare(old, Similarity.COSINE)[pairs[:, 0]] * prepare(old, Similarity.COSINE)[pairs[:, 1]]).sum(1)
    judging = JudgingTask(old, PairTruth(pairs, cosines + 0.1 * random.normal(size=len(pairs))))
    upgrade, bridge = judge_upgrade(UpgradeTask(judging, new, None, texts=N, unsampled_corpus=old[:0]))
    report = judging.parts == TaskPart.REPORT
    first, second = bridge.apply(new[pairs[report, 0]]), prepare(old[pairs[report, 1]], Similarity.COSINE)
    expected = spearmanr((first * second).sum(1), judging.truth.scores[report]).statistic
    assert upgrade.scores["bridged"].value == pytest.approx(expected, abs=1e-6)
    assert upgrade.verdict == "stay"


def test_verdict_needs_clear_gain_and_lower_end_above_share(random):
    relevant = random.integers(0, N, M)
    corpus = draw(random, N)
    queries = corpus[relevant] + 1.2 * random.normal(size=(M, D)).astype(np.float32)
    noise = 0.6 * random.normal(size=(N, D)).astype(np.float32)
    truth = QueryTruth(queries, [{int(row): 1} for row in relevant], IDS)
    task = UpgradeTask(
        JudgingTask(corpus + 2 * noise, truth), corpus, queries, texts=N, unsampled_corpus=corpus[:0]
    )  # the new model has no noise
    upgrade, _ = judge_upgrade(task)
    assert upgrade.scores["new"].difference_low > 0
    assert upgrade.kept_score.value == pytest.approx(upgrade.scores["bridged"].value / upgrade.scores["new"].value)
    assert upgrade.verdict == "re-embed"
    assert replace(upgrade, retain=upgrade.kept_score.low).verdict == "bridge"
    assert "More queries may" in replace(upgrade, retain=upgrade.kept_score.value).conclusion
    bridged = upgrade.scores["bridged"]._replace(difference_high=-0.01)
    worse = replace(upgrade, retain=0.1, scores=upgrade.scores | {"bridged": bridged})
    assert (worse.verdict, "worse than with the old" in worse.conclusion) == ("re-embed", True)
    equal = upgrade.scores["new"]._replace(difference_low=0.0)
    assert replace(upgrade, scores=upgrade.scores | {"new": equal}).verdict == "stay"


def test_kept_score_without_any_change_allows_for_unseen_groups(random):
    old, rotation = draw(random, N + M), draw_rotation(random)
    rows = random.integers(0, N, M)
    old[N:] = old[rows]
    relevant = np.where(np.arange(M) % 2, rows, (rows + 1) % N)  # half of the queries find theirs
    judging = JudgingTask(old[:N], QueryTruth(old[N:], [{int(row): 1} for row in relevant], IDS))
    upgrade, _ = judge_upgrade(UpgradeTask(judging, old[:N] @ rotation, old[N:] @ rotation, N, old[:0]))
    n_groups = len(np.unique(judging.groups[judging.parts == TaskPart.REPORT]))
    unseen = (1 - binomtest(n_groups, n_groups).proportion_ci(method="exact").low) / upgrade.scores["new"].value
    assert upgrade.scores["new"].value < 0.6
    assert tuple(vars(upgrade.kept_score).values()) == pytest.approx((1, 1 - unseen, 1 + unseen))
