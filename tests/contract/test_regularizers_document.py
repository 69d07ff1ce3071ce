import re
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from isotropy.catalog import REGULARIZERS

DOCUMENT = (Path(__file__).parents[2] / "docs/regularizers.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```", DOCUMENT, re.DOTALL)
TEXTS = ["the film", "a very good plot", "bad cast and dull plot", "great", "so dull", "is good", "the cast was", "a a"]

CLASSES = {slug: penalty.make.split(":")[1] for slug, penalty in REGULARIZERS.items()}


def test_every_regularizer_has_table_row_example_and_papers():
    rows = re.findall(r"^\| \[`(\w+)`\]\(#\S+\) \| `(\w+)` \|", DOCUMENT, re.MULTILINE)
    assert [(slug, name) for name, slug in rows] == list(CLASSES.items())
    for name, example in zip(CLASSES.values(), EXAMPLES, strict=True):
        assert f"{name}(" in example
    for penalty in REGULARIZERS.values():
        for authors in re.findall(r"(\w+)(?:,| &)[^()]*\((?:19|20)\d\d\)", penalty.source):
            assert authors in DOCUMENT, penalty.slug


@pytest.mark.parametrize("example", EXAMPLES, ids=CLASSES)
def test_example_adds_penalty_with_gradient_to_loss(models_dir, example):
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
