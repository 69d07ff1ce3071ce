import pytest
import torch
from transformers import (
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    BloomConfig,
    ModernBertConfig,
    XLNetConfig,
)

from app.db.models import Pooling
from tests.architectures import ARCHITECTURES, TINY
from workers.models import pool, sentence_pooling

STATES = torch.arange(24, dtype=torch.float32).reshape(2, 4, 3)


def test_pooling_ignores_padding_on_either_side():
    for start, real in ((0, [1, 1, 1, 0]), (1, [0, 1, 1, 1])):
        mask = torch.tensor([real, [1, 1, 1, 1]])
        assert pool(STATES, mask, Pooling.FIRST).tolist() == [STATES[0, start].tolist(), STATES[1, 0].tolist()]
        assert pool(STATES, mask, Pooling.LAST).tolist() == [STATES[0, start + 2].tolist(), STATES[1, 3].tolist()]
        mean = STATES[0, start : start + 3].mean(0)
        assert pool(STATES, mask, Pooling.MEAN).tolist() == [mean.tolist(), STATES[1].mean(0).tolist()]
    mask = torch.tensor([[0, 0, 1, 0], [0, 1, 0, 0]])
    for pooling in Pooling:
        assert torch.equal(pool(STATES, mask, pooling), torch.stack([STATES[0, 2], STATES[1, 1]]))
    states = STATES.clone()
    states[0, 3] = torch.nan
    mask = torch.tensor([[1, 1, 1, 0], [1, 1, 1, 1]])
    assert all(pool(states, mask, pooling).isfinite().all() for pooling in Pooling)


PADDED = torch.tensor([[5, 6, 7, 8], [9, 5, 0, 0]])
CAUSAL = ("gpt2", "bloom")
MODERNBERT = ARCHITECTURES["modernbert"].to_dict()
HEADS = ARCHITECTURES | {
    "modernbert-mean": ModernBertConfig.from_dict(MODERNBERT | {"classifier_pooling": "mean"}),
    "bloom": BloomConfig(**TINY, hidden_size=16, n_layer=2, n_head=2),
}


@pytest.mark.parametrize(
    ("name", "on_the_left"), [*((name, False) for name in HEADS), *((name, True) for name in CAUSAL)]
)
def test_sentence_pooling_matches_classification_head(name, on_the_left):
    torch.manual_seed(0)
    model = AutoModelForSequenceClassification.from_config(HEADS[name]).eval()
    ids = PADDED.flip(1) if on_the_left else PADDED
    mask = (ids != 0).long()
    outputs = model(input_ids=ids, attention_mask=mask, output_hidden_states=True)
    last = outputs.hidden_states[-1]
    (head_gradient,) = torch.autograd.grad(outputs.logits.sum(), last, retain_graph=True)
    (pool_gradient,) = torch.autograd.grad(pool(last, mask, sentence_pooling(model)).sum(), last)
    assert torch.equal(head_gradient.abs().sum(-1) > 0, pool_gradient.abs().sum(-1) > 0)


def test_sentence_pooling_finds_last_token_without_side_effects():
    config = XLNetConfig(**TINY, d_model=16, n_layer=2, n_head=2, d_inner=32)
    assert sentence_pooling(AutoModelForSequenceClassification.from_config(config)) is Pooling.LAST
    model = AutoModelForSequenceClassification.from_config(ARCHITECTURES["gpt2"]).train()
    before = torch.get_rng_state()
    sentence_pooling(model)
    assert torch.equal(torch.get_rng_state(), before)
    assert model.training


@pytest.mark.parametrize(("name", "pooling"), [("bert", Pooling.FIRST), ("gpt2", Pooling.LAST)])
def test_sentence_pooling_of_span_model_matches_classification(name, pooling):
    assert sentence_pooling(AutoModelForQuestionAnswering.from_config(ARCHITECTURES[name])) is pooling
