"""The examples of docs/regularizers.md run as they are written, in a training step of a real model."""

import re
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from isotropy.regularizers.cosreg import CosReg
from isotropy.regularizers.istar import IStar
from isotropy.regularizers.persistent_entropy import PersistentEntropy
from isotropy.regularizers.spectrum_control import SpectrumControl
from isotropy.regularizers.unbiased_istar import UnbiasedIStar

DOCUMENT = (Path(__file__).parents[2] / "docs/regularizers.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```", DOCUMENT, re.DOTALL)
TEXTS = ["the film", "a very good plot", "bad cast and dull plot", "great", "so dull", "is good", "the cast was", "a a"]


CLASSES = (IStar, UnbiasedIStar, CosReg, PersistentEntropy, SpectrumControl)


def test_every_regularizer_has_an_example():
    for kind, example in zip(CLASSES, EXAMPLES, strict=True):
        assert f"{kind.__name__}(" in example


@pytest.mark.parametrize("example", EXAMPLES, ids=[kind.__name__ for kind in CLASSES])
def test_an_example_adds_a_penalty_with_a_gradient_to_the_loss(models_dir, example):
    torch.manual_seed(0)
    model = AutoModelForSequenceClassification.from_pretrained(models_dir / "tiny-bert")
    tokenizer = AutoTokenizer.from_pretrained(models_dir / "tiny-bert")
    batch = tokenizer(TEXTS, padding=True, return_tensors="pt") | {"labels": torch.arange(8) % 2}
    output = model(**batch, output_hidden_states=True)
    names = {"model": model, "batch": batch, "output": output}
    exec(example, names)
    penalty = names["loss"] - output.loss
    assert penalty.isfinite()
    assert penalty != 0
    penalty.backward()
    gradient = model.get_input_embeddings().weight.grad
    assert gradient.isfinite().all()
    assert gradient.any()
