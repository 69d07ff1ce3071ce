from types import SimpleNamespace

import datasets
import numpy as np
import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification

from app.db.config import RunConfig
from isotropy.points import union_of_layers
from isotropy.regularizers.istar import IStar
from workers.finetune.rows import Rows
from workers.finetune.shrinkage import ShrinkageCallback

TEXTS = [list(range(4, 4 + n)) for n in (3, 9, 5, 7, 2, 8)]


class Progress:
    """Keeps what a real one would write."""

    def __init__(self):
        self.total, self.done = None, []

    def enter(self, phase, total):
        self.total = total

    def advance(self, done):
        self.done.append(done)


@pytest.fixture
def model():
    torch.manual_seed(0)
    return BertForSequenceClassification(
        BertConfig(
            vocab_size=50,
            hidden_size=8,
            num_hidden_layers=3,
            num_attention_heads=2,
            intermediate_size=16,
            pad_token_id=0,
        )
    ).train()


@pytest.fixture
def estimate(model):
    """Begin an epoch and return the regularizer and the progress; keywords change the configuration."""

    def estimate(epoch=0.0, **changes):
        values = {"model": "m", "text_columns": ["t"], "label_column": "l", "label_names": ["a", "b"], "seed": 0}
        config = RunConfig.model_validate({**values, "regularizer": "istar", "lam": 1, "batch_size": 2, **changes})
        rows = Rows(datasets.Dataset.from_dict({"input_ids": TEXTS}), np.array([len(text) for text in TEXTS]), collate)
        istar, progress = IStar(lam=1.0, zeta=0.2), Progress()
        callback = ShrinkageCallback(istar, model, rows, config, progress)
        callback.on_epoch_begin(None, SimpleNamespace(epoch=epoch), None)
        return istar.shrinkage_covariance, progress

    return estimate


def collate(rows):
    texts = [torch.tensor(row["input_ids"]) for row in rows]
    ids = torch.nn.utils.rnn.pad_sequence(texts, batch_first=True)
    return {"input_ids": ids, "attention_mask": (ids != 0).long()}


def covariance_by_hand(model, texts, layers=None):
    model.eval()
    clouds = []
    for text in texts:
        ids = torch.tensor([text])
        with torch.no_grad():
            states = model(input_ids=ids, output_hidden_states=True).hidden_states
        clouds.append(union_of_layers(states, torch.ones_like(ids), layers))
    return torch.cat(clouds).T.cov()


@pytest.mark.parametrize("layers", [None, [2], [1, 3]])
def test_it_is_the_covariance_of_all_tokens_of_the_chosen_layers(model, estimate, layers):
    S, progress = estimate(layers=layers)
    torch.testing.assert_close(S, covariance_by_hand(model, TEXTS, layers), rtol=1e-4, atol=1e-6)
    assert progress.total == progress.done[-1] == 34 * len(layers or [1, 2, 3])


def test_no_more_points_than_asked_for_are_looked_at(estimate):
    _, progress = estimate(shrinkage_points=60)
    assert 0 < progress.done[-1] <= 60


def test_padding_is_added_where_it_is_included(estimate):
    without, _ = estimate()
    included, _ = estimate(include_padding=True)
    assert not torch.allclose(without, included)


def test_another_epoch_looks_at_other_rows(estimate):
    first, again, second = (estimate(epoch, shrinkage_points=40)[0] for epoch in (0.0, 0.0, 1.0))
    assert torch.equal(first, again)
    assert not torch.allclose(first, second)


def test_an_epoch_that_goes_on_in_its_middle_keeps_its_covariance(estimate):
    S, progress = estimate(epoch=1.5)
    assert S.numel() == 0
    assert progress.total is None


def test_training_goes_on_as_if_nobody_had_looked(model, estimate):
    before = torch.get_rng_state(), np.random.get_state()[1].tolist()
    estimate()
    assert torch.equal(torch.get_rng_state(), before[0])
    assert np.random.get_state()[1].tolist() == before[1]
    assert model.training
    assert torch.is_grad_enabled()
    assert all(weights.grad is None for weights in model.parameters())
