"""Upgrades of SQuAD paragraphs and questions, from layers of the bundled model to others and to word averages."""

import re
from pathlib import Path

import numpy as np
import pytest

from benchmarks._encoded_texts import DATA, read_squad_texts
from isotropy.catalog import Similarity
from isotropy.tasks.judge import JudgingTask
from isotropy.tasks.truth import QueryTruth, exact_neighbors
from isotropy.tasks.upgrade import UpgradeTask, judge_upgrade
from tests.squad import LAYERS, vectors

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(DATA is None, reason="ISOSCOPE_BENCH_DATA is unset: no reference data"),
]
MIDDLE, LAST = LAYERS


@pytest.fixture(scope="module")
def arrays(pytestconfig):
    return vectors(Path(DATA), Path(pytestconfig.cache.mkdir("squad")) / "minilm.npz")


@pytest.fixture(scope="module")
def models(arrays):
    """Paragraphs and questions by the name of the model."""
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
