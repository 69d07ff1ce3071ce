import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotropy.catalog import FEWEST_GROUPS, Similarity
from isotropy.tasks.decision import BASELINE, VariantChoice, choose_variants
from isotropy.tasks.judge import JudgingTask, ScoredVariant, decide, map_of
from isotropy.tasks.maps import Map
from isotropy.tasks.parts import TaskPart, split
from isotropy.tasks.search import rank_ties
from isotropy.tasks.storage import StoredSpace, VectorStorage
from isotropy.tasks.truth import LabelTruth, PairTruth, QueryTruth, ranking_metric
from isotropy.tasks.variants import MAX_VARIANTS, Dimensions, Variant, VariantSetting, all_variants, default_variants


@given(st.lists(st.integers(1, 6), min_size=2 * FEWEST_GROUPS, max_size=120), st.integers(0, 2**31))
def test_split_keeps_groups_and_shares(sizes, seed):
    groups = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(sizes)), sizes))
    parts = split(groups, seed)
    assert all(len(set(parts[groups == group])) == 1 for group in range(len(sizes)))
    counts = [len(set(groups[parts == part])) for part in TaskPart]
    assert np.abs(np.array(counts) - len(sizes) * np.array([0.2, 0.4, 0.4])).max() <= 2
    shares = np.bincount(parts) / len(groups)
    assert np.abs(shares - [0.2, 0.4, 0.4]).max() < 0.1
    np.testing.assert_array_equal(parts, split(groups, seed))


@pytest.mark.parametrize("sizes", [[1] * (FEWEST_GROUPS - 1), [500] + [1] * 60, [], [30]])
def test_split_rejects_too_few_groups(sizes):
    with pytest.raises(ValueError, match=f"at least {FEWEST_GROUPS} independent groups"):
        split(np.repeat(np.arange(len(sizes)), sizes), 0)


@given(
    st.lists(
        st.tuples(st.sampled_from([0.2, 0.5, 0.505, 0.51, 0.6]), st.booleans(), st.integers(1, 4)),
        min_size=1,
        max_size=12,
    ),
    st.sampled_from([0.0, 0.01, 0.2]),
)
def test_best_clear_gain_is_chosen_and_smallest_is_in_tolerance(variants, tolerance):
    scores, clear, sizes = map(list, zip(*variants, strict=True))
    names = [Variant("soft_zca", (("eps", i),)) for i in range(len(scores))]
    choice = choose_variants(names, scores, [is_clear and i > 0 for i, is_clear in enumerate(clear)], sizes, tolerance)
    candidates = [i for i, is_clear in enumerate(clear) if is_clear or i == BASELINE]
    assert choice.chosen in candidates
    assert scores[choice.chosen] == max(scores[i] for i in candidates)
    assert scores[choice.smallest] >= scores[choice.chosen] - tolerance
    assert sizes[choice.smallest] == min(
        [sizes[i] for i in range(len(scores)) if scores[i] >= scores[choice.chosen] - tolerance]
        + [sizes[choice.chosen]]
    )
    assert choice.smallest == choice.chosen or sizes[choice.smallest] < sizes[choice.chosen]


def test_method_is_chosen_before_storage():
    variants = [Variant(), Variant("centring"), Variant("standardisation")]
    choice = choose_variants(variants, [0.5, 0.9, 0.8], [False] * 3, [4, 4, 4], 0.01)
    assert choice == VariantChoice(BASELINE, BASELINE)
    variants = [Variant(), Variant("centring"), Variant("centring", storage=VectorStorage.INT8)]
    assert choose_variants(variants, [0.5, 0.8, 0.805], [False, True, True], [4, 4, 1], 0.01) == VariantChoice(1, 2)
    assert choose_variants(variants, [0.5, 0.8, 0.9], [False, False, True], [4, 4, 1], 0.01) == VariantChoice(2, 2)


@pytest.fixture(scope="module")
def isotropic():
    """A decision for isotropic vectors, which no variant improves."""
    random = np.random.default_rng(1)
    corpus = random.standard_normal((400, 16)).astype(np.float32)
    queries = (corpus[:250] + random.standard_normal((250, 16))).astype(np.float32)
    truth = QueryTruth(queries, [{row: 1} for row in range(250)], [f"{row:03}" for row in range(400)])
    return decide(JudgingTask(corpus, truth))


def test_baseline_is_chosen_without_gain(isotropic):
    assert isotropic.chosen == BASELINE
    assert isotropic.conclusion.startswith("Keep the vectors as they are: nDCG@10 is ")
    assert "No change is clearly better." in isotropic.conclusion
    assert ": " not in isotropic.conclusion.split(". ", 1)[0].split(": ", 1)[1]
    half = next(scores for scores in isotropic.variants if scores.variant == Variant(storage=VectorStorage.FLOAT16))
    assert half.report[3:] == (0, 0, 0)
    assert half.gain == (0, 0, 0)


def test_smallest_has_interval_against_chosen(isotropic):
    chosen, smallest = (isotropic.variants[i] for i in (isotropic.chosen, isotropic.smallest))
    cost = isotropic.smallest_difference
    assert smallest.bytes < chosen.bytes
    assert cost.difference == pytest.approx(smallest.report.value - chosen.report.value)
    assert cost.low < cost.high
    assert f"{chosen.bytes / smallest.bytes:.3g} times smaller" in isotropic.conclusion


@pytest.mark.parametrize("metric", ["knn_accuracy", "probe_accuracy"])
def test_no_variant_is_advised_below_most_frequent_label(metric):
    random = np.random.default_rng(0)
    x, ids = random.standard_normal((400, 8)).astype(np.float32), [str(row) for row in range(400)]
    variants = (Variant(), Variant(storage=VectorStorage.BINARY))
    rare = LabelTruth(np.arange(400), (random.random(400) < 0.02).astype(np.int64), ids)
    sentence = decide(JudgingTask(x, rare, metric=metric), variants).conclusion
    assert sentence.startswith("No clear signal: ")
    assert "not clearly more than the 97.5% of always guessing the most frequent label" in sentence
    for limit, advice in ((0, "Keep the vectors"), (1, "No clear signal: ")):  # a sixth of the labels exceed 1
        truth = LabelTruth(np.arange(400), (x[:, 0] > limit).astype(np.int64), ids)
        assert decide(JudgingTask(x, truth, metric=metric), variants).conclusion.startswith(advice)


def test_truth_of_other_vectors_is_no_clear_signal(task):
    shuffled = np.random.default_rng(1).permutation(len(task.truth.relevant))
    relevant = [task.truth.relevant[query] for query in shuffled]
    wrong = JudgingTask(task.corpus, QueryTruth(task.truth.vectors, relevant, task.truth.ids))
    assert "of random rows. Check that the ground truth belongs" in decide(wrong, [Variant()]).conclusion
    pairs = PairTruth(np.arange(300).reshape(-1, 2), np.random.default_rng(0).random(150))
    assert "0.000 of a constant" in decide(JudgingTask(task.corpus, pairs), [Variant()]).conclusion


@pytest.mark.parametrize("metric", ["ndcg@10", "recall@10", "mrr@10"])
def test_trivial_score_is_that_of_random_rows(task, metric):
    random = np.random.default_rng(0)
    relevant = [{int(row): int(random.integers(1, 4)) for row in random.integers(0, 300, 40)} for _ in range(2000)]
    truth = QueryTruth(task.truth.vectors, relevant, task.truth.ids)
    ranked = np.array([random.permutation(300)[:10] for _ in relevant])
    expected = ranking_metric(relevant, ranked, metric).mean()
    assert truth.trivial_score(metric, np.full(2000, TaskPart.CHOOSE)) == pytest.approx(expected, rel=0.05)


def test_neighbors_of_many_separated_classes_predict_labels():
    random = np.random.default_rng(0)
    codes = random.integers(0, 50, 1000)
    x = (6 * random.standard_normal((50, 24))[codes] + random.standard_normal((1000, 24))).astype(np.float32)
    truth = LabelTruth(np.arange(1000), codes, [str(row) for row in range(1000)])
    assert decide(JudgingTask(x, truth), [Variant()]).variants[0].report.value > 0.95, "about four of a class can vote"


@given(st.integers(1, 200_000), st.integers(2, 5000), st.booleans(), st.booleans())
def test_variant_list_is_short_unique_and_starts_with_baseline(n, d, changes, searches):
    setting = VariantSetting(n, d, 0.3, changes, searches)
    short, full = default_variants(setting), all_variants(setting)
    for variants in (short, full):
        assert variants[0] == Variant()
        assert len(set(variants)) == len(variants) == len({variant.name for variant in variants})
        assert all(1 <= (variant.dimensions.size or d) <= d for variant in variants)
        assert searches or all(variant.storage is not VectorStorage.RESCORED for variant in variants)
        assert changes or all(variant.method == "none" for variant in variants)
    assert len(short) <= MAX_VARIANTS


def test_default_variants_cover_methods_and_storages():
    from isotropy.catalog import METHODS  # noqa: PLC0415

    assert {variant.method for variant in default_variants(VariantSetting(5000, 384, 0.1))} == {"none", *METHODS}
    assert {variant.storage for variant in default_variants(VariantSetting(5000, 384, 0.1))} == set(VectorStorage)
    assert default_variants(VariantSetting(5000, 384, 0.1))[-1].method == "soft_zca", "the list is not cut"


@pytest.fixture(scope="module")
def task():
    random = np.random.default_rng(1)
    corpus = (random.normal(size=(300, 12)) * np.linspace(2, 0.2, 12) + 0.5).astype(np.float32)
    relevant = random.integers(0, 300, 150)
    queries = corpus[relevant] + random.normal(size=(150, 12)).astype(np.float32) * 0.5
    truth = QueryTruth(queries, [{row: 1} for row in relevant.tolist()], [str(row) for row in range(300)])
    return JudgingTask(corpus, truth)


def test_maps_are_fitted_on_fit_part_only(task):
    variant = Variant("all_but_the_top", (("D", 1),), Dimensions("pca", 6))
    parts = split(task.truth.group_codes(task.corpus), task.seed)
    changed_vectors = task.truth.vectors.copy()
    changed_vectors[parts != TaskPart.FIT] *= -3
    changed = JudgingTask(task.corpus, QueryTruth(changed_vectors, task.truth.relevant, task.truth.ids))
    first, second = map_of(task, variant).tensors(), map_of(changed, variant).tensors()
    assert all((first[name] == second[name]).all() for name in first)
    changed_vectors[parts == TaskPart.FIT] *= -3
    other_queries = QueryTruth(changed_vectors, task.truth.relevant, task.truth.ids)
    assert (map_of(JudgingTask(task.corpus, other_queries), variant).tensors()["mean"] != first["mean"]).any()


def test_decision_is_deterministic_and_reports_progress(task):
    variants = [Variant(), Variant(storage=VectorStorage.INT8), Variant("flow", (("steps", 20),))]
    progress: list[ScoredVariant] = []
    first = decide(task, variants, progress=progress.append).to_dict()
    assert [scored.variant for scored in progress] == variants
    assert [scored.choose_score for scored in progress] == [variant["choose"]["value"] for variant in first["variants"]]
    judged = [(variant["bytes"], variant["isoscore"]) for variant in first["variants"]]
    assert [(scored.bytes, scored.isoscore) for scored in progress] == judged
    assert first == decide(task, variants).to_dict()
    assert first["parts"]["choose"] + first["parts"]["report"] + first["parts"]["fit"] == 150
    assert first["variants"][0]["recall_of_exact"] == 1
    assert 0.9 < first["variants"][1]["recall_of_exact"] <= 1


@pytest.mark.parametrize(
    ("change", "metric", "words"),
    [
        (lambda x: np.where(x > 2, np.nan, x), {}, "NaN or infinity among the corpus"),
        (lambda x: np.float32(1e13) * x, {"similarity": Similarity.DOT}, r"1e-12 to 1e\+12, got .* among the corpus"),
        (lambda x: x[:, :5].copy(), {}, "queries of 5 dimensions like the corpus, got 12"),
        (lambda x: x, {"metric": "spearman"}, "metric among ndcg@10, recall@10, mrr@10"),
    ],
)
def test_task_rejects_invalid_vectors_and_metrics(task, change, metric, words):
    with pytest.raises(ValueError, match=words):
        JudgingTask(change(task.corpus), task.truth, **metric)


METHODS_TRIED = [row for row in default_variants(VariantSetting(1500, 12, 0.5)) if row.storage is VectorStorage.FLOAT32]


@pytest.mark.parametrize("variant", METHODS_TRIED, ids=lambda row: row.name)
@pytest.mark.parametrize("similarity", ["cosine", "dot"])
def test_printed_code_applies_map(task, variant, similarity, tmp_path, monkeypatch):
    from safetensors.torch import save_file  # noqa: PLC0415

    if variant.method == "flow":
        variant = Variant("flow", (("steps", 30),))
    fitted_map: Map = map_of(JudgingTask(task.corpus, task.truth, Similarity(similarity)), variant)
    save_file(fitted_map.tensors(), tmp_path / "map.safetensors", fitted_map.metadata())
    monkeypatch.chdir(tmp_path)
    code = fitted_map.numpy_code("map.safetensors")
    assert len([line for line in code.splitlines() if line.startswith("    ")]) <= 12
    names: dict = {}
    exec(code, names)
    x = np.concatenate([task.corpus, task.truth.vectors])
    expected = fitted_map.apply(x)
    np.testing.assert_allclose(names["apply"](x), expected, rtol=1e-5, atol=2e-5 * np.abs(expected).max())


def test_exact_copies_share_group_by_default():
    x = np.random.default_rng(0).normal(size=(30, 4)).astype(np.float32)
    copied = np.concatenate([x, x, -x])
    rows = np.arange(90)
    labels = LabelTruth(rows, rows % 2, [str(row) for row in rows])
    codes = labels.group_codes(copied)
    np.testing.assert_array_equal(codes[:30], codes[30:60])
    assert len(set(codes.tolist())) == 60
    pairs = PairTruth(np.array([[0, 1], [31, 62], [5, 65]]), np.arange(3.0)).group_codes(copied).tolist()
    assert pairs == [pairs[0], pairs[0], pairs[2]] != [pairs[0]] * 3
    truth = QueryTruth(copied[[3, 33, 4, 70]], [{0: 1}, {1: 1}, {7: 1}, {37: 1}], labels.ids)
    queries = truth.group_codes(copied).tolist()
    assert queries == [queries[0], queries[0], queries[2], queries[2]] != [queries[0]] * 4
    assert LabelTruth(rows, rows % 2, labels.ids, groups=rows).group_codes(copied).tolist() == rows.tolist()


@pytest.mark.long
def test_search_with_all_rows_tied_takes_little_memory():
    n, d = 20_000, 64
    rows = np.repeat(np.eye(1, d, dtype=np.float32), n, axis=0)
    tie_ranks = rank_ties([f"{row:06}" for row in range(n)])
    tracemalloc.start()
    for storage in (VectorStorage.FLOAT32, VectorStorage.BINARY):
        neighbors = StoredSpace(rows, storage, Similarity.COSINE).nearest(rows[:300], 10, tie_ranks)
        assert (neighbors == n - 1 - np.arange(10)).all()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 250 * 2**20
