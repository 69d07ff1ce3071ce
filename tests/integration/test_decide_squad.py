"""Decisions for SQuAD paragraphs and questions encoded by the bundled model."""

from pathlib import Path

import pytest

from benchmarks._encoded_texts import DATA
from isotropy.tasks.judge import JudgingTask, decide
from isotropy.tasks.storage import VectorStorage
from isotropy.tasks.truth import QueryTruth
from isotropy.tasks.variants import Variant, VariantSetting, default_variants
from tests.squad import LAYERS, vectors

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(DATA is None, reason="ISOSCOPE_BENCH_DATA is unset: no reference data"),
]
MIDDLE, LAST = LAYERS
ZCA, REMOVAL = Variant("zca_whitening"), Variant("all_but_the_top", (("D", 1),))


@pytest.fixture(scope="module")
def task(pytestconfig):
    arrays = vectors(Path(DATA), Path(pytestconfig.cache.mkdir("squad")) / "minilm.npz")

    def task(layer):
        corpus, questions = arrays[f"paragraphs_{layer}"], arrays[f"questions_{layer}"]
        relevant = [{int(row): 1} for row in arrays["relevant"]]
        return JudgingTask(corpus, QueryTruth(questions, relevant, [str(row) for row in range(len(corpus))]))

    return task


def judge_variants(task, *variants):
    """Return the results of the original vectors and of the variants."""
    return decide(task, [Variant(), *variants]).variants


def soft_zca(setting: VariantSetting) -> Variant:
    """Return soft ZCA whose eps is the mean variance of a dimension."""
    return [variant for variant in default_variants(setting) if variant.method == "soft_zca"][1]


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
    base, soft, removal = judge_variants(layer, soft_zca(layer.setting), REMOVAL)
    assert soft.report.difference_low > 0.1
    assert removal.report.difference_low > 0.03
    assert abs(removal.isoscore - base.isoscore) < 0.02
