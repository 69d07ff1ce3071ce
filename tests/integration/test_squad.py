import re
from pathlib import Path

import numpy as np
import pytest

from benchmarks._encoded_texts import DATA, encode_layers, read_squad_texts
from isotropy.catalog import Similarity
from isotropy.tasks.judge import JudgingTask, decide
from isotropy.tasks.storage import VectorStorage
from isotropy.tasks.truth import QueryTruth, exact_neighbors
from isotropy.tasks.upgrade import UpgradeTask, judge_upgrade
from isotropy.tasks.variants import Variant, default_variants

LAYERS = (4, 6)
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(DATA is None, reason="ISOSCOPE_BENCH_DATA is unset: no reference data"),
]
MIDDLE, LAST = LAYERS
ZCA, REMOVAL = Variant("zca_whitening"), Variant("all_but_the_top", (("D", 1),))


def vectors(folder: Path, cache_path: Path) -> dict[str, np.ndarray]:
    """Return ``paragraphs_4``, ``questions_4`` and their last layer, each [n, 384], and ``relevant`` [questions]."""
    if not cache_path.is_file():
        paragraphs, questions, relevant = read_squad_texts(folder)
        arrays = {f"paragraphs_{layer}": x for layer, x in encode_layers(paragraphs, LAYERS).items()}
        arrays |= {f"questions_{layer}": x for layer, x in encode_layers(questions, LAYERS).items()}
        partial = cache_path.with_suffix(".partial.npz")
        np.savez(partial, relevant=np.array(relevant), **arrays)
        partial.replace(cache_path)
    with np.load(cache_path) as stored:
        return dict(stored)


@pytest.fixture(scope="module")
def task(pytestconfig):
    arrays = vectors(Path(DATA), Path(pytestconfig.cache.mkdir("squad")) / "minilm.npz")

    def task(layer):
        corpus, questions = arrays[f"paragraphs_{layer}"], arrays[f"questions_{layer}"]
        relevant = [{int(row): 1} for row in arrays["relevant"]]
        return JudgingTask(corpus, QueryTruth(questions, relevant, [str(row) for row in range(len(corpus))]))

    return task


def judge_variants(task, *variants):
    return decide(task, [Variant(), *variants]).variants


def test_last_layer_loses_by_whitening_and_binary_storage(task):
    storages = (Variant(storage=kind) for kind in (VectorStorage.INT8, VectorStorage.BINARY, VectorStorage.RESCORED))
    base, zca, int8, binary, rescored = judge_variants(task(LAST), ZCA, *storages)
    assert zca.report.difference_high < 0
    assert zca.isoscore > base.isoscore + 0.1
    assert abs(int8.report.difference) < 0.005
    assert -0.08 < binary.report.difference < -0.02
    assert binary.report.difference_high < 0
    assert abs(rescored.report.difference) < 0.01


def test_layer_4_gains_by_soft_whitening_and_removal(task):
    layer = task(MIDDLE)
    # The second soft ZCA has the mean variance of a dimension as its eps.
    soft_zca = next(variant for variant in default_variants(layer.setting) if variant.method == "soft_zca")
    base, soft, removal = judge_variants(layer, soft_zca, REMOVAL)
    assert soft.report.difference_low > 0.1
    assert removal.report.difference_low > 0.03
    assert abs(removal.isoscore - base.isoscore) < 0.02


@pytest.fixture(scope="module")
def arrays(pytestconfig):
    return vectors(Path(DATA), Path(pytestconfig.cache.mkdir("squad")) / "minilm.npz")


@pytest.fixture(scope="module")
def models(arrays):
    paragraphs, questions = arrays[f"paragraphs_{LAST}"], arrays[f"questions_{LAST}"]
    rotation = np.linalg.qr(np.random.default_rng(0).normal(size=(384, 384)))[0].astype(np.float32)
    axes = np.linalg.svd(paragraphs.astype(np.float64), full_matrices=False)[2][:192].T.astype(np.float32)
    with np.load(Path(DATA) / "embeddings" / "word2vec_googlenews_300d_8k.npz") as stored:
        word_vectors = dict(zip(stored["words"].tolist(), stored["vectors"], strict=True))

    def average(text):
        text_vectors = [word_vectors[word] for word in re.findall(r"\w+", text) if word in word_vectors]
        return np.mean(text_vectors or [np.zeros(300)], axis=0)

    paragraph_texts, question_texts, _ = read_squad_texts(Path(DATA))
    return {
        "middle": (arrays[f"paragraphs_{MIDDLE}"], arrays[f"questions_{MIDDLE}"]),
        "last": (paragraphs, questions),
        "rotated": (paragraphs @ rotation, questions @ rotation),
        "pca": (paragraphs @ axes, questions @ axes),
        "words": tuple(
            np.array([average(text) for text in rows], np.float32) for rows in (paragraph_texts, question_texts)
        ),
    }


@pytest.mark.parametrize(
    ("old", "new", "by_qrels", "by_neighbors"),
    [
        ("middle", "last", "re-embed", "re-embed"),
        ("last", "rotated", "stay", "bridge"),
        ("last", "pca", "stay", "bridge"),
        ("last", "words", "stay", "re-embed"),
        ("words", "last", "re-embed", "re-embed"),
    ],
)
def test_verdicts_of_real_models(arrays, models, old, new, by_qrels, by_neighbors):
    (corpus, queries), (new_corpus, new_queries) = models[old], models[new]
    ids = [str(row) for row in range(len(corpus))]
    relevant = QueryTruth(queries, [{int(row): 1} for row in arrays["relevant"]], ids)
    neighbors = exact_neighbors(corpus, queries, ids, Similarity.COSINE)
    for truth, verdict in ((relevant, by_qrels), (neighbors, by_neighbors)):
        task = UpgradeTask(
            JudgingTask(corpus, truth), new_corpus, new_queries, texts=len(corpus), unsampled_corpus=corpus[:0]
        )
        upgrade, _ = judge_upgrade(task)
        assert upgrade.verdict == verdict, upgrade.conclusion
