from types import SimpleNamespace

import datasets
import numpy as np
import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification

from app.db.config import RunConfig
from app.db.models import Phase
from isotropy.catalog import Regularizer
from isotropy.points import union_of_layers
from workers.training.inference import TokenizedRows
from workers.training.penalties import ShrinkageCallback, draw_rows, make_penalties

TEXTS = [list(range(4, 4 + n)) for n in (3, 9, 5, 7, 2, 8)]


class Progress:
    """Record the progress of a job."""

    def __init__(self):
        self.total, self.done, self.phases = None, [], []

    def enter(self, phase, total, done=0):
        self.phases.append((phase, done))
        if phase is Phase.SHRINKAGE:
            self.total = total

    def advance(self, done):
        self.done.append(done)


@pytest.fixture
def model():
    torch.manual_seed(0)
    sizes = {"hidden_size": 8, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 16}
    return BertForSequenceClassification(BertConfig(vocab_size=50, pad_token_id=0, **sizes)).train()


def make_callback(model, **changes):
    """Return a function that makes a callback, its regularizer and progress; keywords configure the run."""
    values = {"model": "m", "text_columns": ["t"], "label_column": "l", "label_names": ["a", "b"], "seed": 0}
    config = RunConfig.model_validate({**values, "regularizer": "istar", "lam": 1, "batch_size": 2, **changes})
    rows = TokenizedRows(
        datasets.Dataset.from_dict({"input_ids": TEXTS}), np.array([len(text) for text in TEXTS]), collate
    )
    penalties, progress = make_penalties(config, model), Progress()
    selector = penalties.selectors[Regularizer.ISTAR]
    return (
        ShrinkageCallback(penalties.shrinking_istar, selector, model, rows, config, progress),
        penalties.shrinking_istar,
        progress,
    )


def estimate(model, epoch=0.0, step=0, **changes):
    """Return a function that begins a step and gives the covariance and progress; keywords configure the run."""
    callback, istar, progress = make_callback(model, **changes)
    callback.on_step_begin(None, SimpleNamespace(epoch=epoch, global_step=step, max_steps=9), None)
    return istar.shrinkage_covariance, progress


def collate(rows):
    texts = [torch.tensor(row["input_ids"]) for row in rows]
    ids = torch.nn.utils.rnn.pad_sequence(texts, batch_first=True)
    return {"input_ids": ids, "attention_mask": (ids != 0).long()}


def covariance_by_hand(model, texts, layers=None, pooled=None):
    model.eval()
    clouds = []
    for text in texts:
        ids = torch.tensor([text])
        with torch.no_grad():
            states = model(input_ids=ids, output_hidden_states=True).hidden_states
        if pooled is None:
            clouds.append(union_of_layers(states, torch.ones_like(ids), layers))
        else:
            clouds.append(torch.stack([pooled(layer[0]) for layer in states[1:]]))
    return torch.cat(clouds).T.cov()


@pytest.mark.parametrize("layers", [None, [2], [1, 3]])
def test_shrinkage_is_covariance_of_tokens_of_selected_layers(model, layers):
    S, progress = estimate(model, layers=layers)
    torch.testing.assert_close(S, covariance_by_hand(model, TEXTS, layers), rtol=1e-4, atol=1e-6)
    assert progress.total == progress.done[-1] == 34 * len(layers or [1, 2, 3])


def test_shrinkage_uses_limited_points_and_refreshes_on_schedule(model):
    _, progress = estimate(model, shrinkage_points=60)
    assert 0 < progress.done[-1] <= 60
    first, again, second = (estimate(model, epoch, shrinkage_points=40)[0] for epoch in (0.0, 0.0, 1.0))
    assert torch.equal(first, again)
    assert not torch.allclose(first, second)
    options = {"shrinkage_refresh": "steps", "shrinkage_every": 3, "shrinkage_points": 40}
    due = {step: estimate(model, step / 4, step, **options)[0] for step in range(7)}
    assert [step for step, S in due.items() if S.numel()] == [0, 3, 6]
    assert not torch.allclose(due[0], due[3])


def test_included_padding_counts_and_resumed_epoch_keeps_covariance(model):
    without, _ = estimate(model)
    included, _ = estimate(model, include_padding=True)
    assert not torch.allclose(without, included)
    S, progress = estimate(model, epoch=1.5)
    assert S.numel() == 0
    assert progress.phases == []
    _, progress = estimate(model, epoch=1.0, step=4)
    assert progress.phases == [(Phase.SHRINKAGE, 0), (Phase.TRAINING, 4)]


@pytest.mark.parametrize(("points", "pooled"), [("sentence", lambda x: x[0]), ("mean", lambda x: x.mean(0))])
def test_shrinkage_of_pooled_points_is_covariance_of_texts(model, points, pooled):
    S, _ = estimate(model, points=points)
    torch.testing.assert_close(S, covariance_by_hand(model, TEXTS, pooled=pooled), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("n_points", "texts"), [(9, 3), (2, 1), (250_000, 6)])
def test_pooled_points_stay_within_limit_but_keep_one_text(model, n_points, texts):
    _, progress = estimate(model, points="mean", shrinkage_points=n_points)
    drawn = np.random.default_rng((0, 0)).permutation(6)[:texts]
    assert progress.total == 3 * sum(len(TEXTS[row]) for row in drawn)


@pytest.mark.parametrize(("points", "n_points", "rows"), [("tokens", 60, 3), ("mean", 60, 20), ("mean", 1000, 100)])
def test_draw_rows_counts_one_point_per_pooled_text_or_token(model, points, n_points, rows):
    callback, _, _ = make_callback(model, points=points, shrinkage_points=n_points)
    lengths = np.full(100, 6)
    assert len(draw_rows(lengths, callback.selector, callback.config, 0)) == rows


def test_moving_average_mixes_points_of_each_step(model):
    callback, istar, progress = make_callback(model, shrinkage_refresh="average", shrinkage_momentum=0.75)
    state = SimpleNamespace(epoch=0.0, global_step=0, max_steps=9)
    callback.on_step_begin(None, state, None)
    start = covariance_by_hand(model, TEXTS)
    torch.testing.assert_close(istar.shrinkage_covariance, start, rtol=1e-4, atol=1e-6)

    clouds = torch.randn(3, 20, 8)
    istar(clouds[0])
    callback.on_step_end(None, state, None)
    after_one = 0.75 * start + 0.25 * clouds[0].T.cov()
    torch.testing.assert_close(istar.shrinkage_covariance, after_one, rtol=1e-4, atol=1e-6)

    callback.on_step_begin(None, SimpleNamespace(epoch=1.0, global_step=1, max_steps=9), None)
    istar(clouds[1])
    callback.on_substep_end(None, state, None)
    istar(clouds[2])
    callback.on_step_end(None, state, None)
    expected = (clouds[1].T.cov() + clouds[2].T.cov()) / 2
    torch.testing.assert_close(istar.shrinkage_covariance, 0.75 * after_one + 0.25 * expected, rtol=1e-4, atol=1e-6)
    assert [phase for phase, _ in progress.phases] == [Phase.SHRINKAGE, Phase.TRAINING]


def test_steps_without_moving_average_keep_covariance(model):
    callback, istar, _ = make_callback(model)
    istar.set_shrinkage(torch.eye(8))
    istar(torch.randn(20, 8))
    callback.on_substep_end(None, None, None)
    callback.on_step_end(None, None, None)
    assert torch.equal(istar.shrinkage_covariance, torch.eye(8))


def test_estimation_leaves_training_state_unchanged(model):
    before = torch.get_rng_state(), np.random.get_state()[1].tolist()
    estimate(model)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert np.random.get_state()[1].tolist() == before[1]
    assert model.training
    assert torch.is_grad_enabled()
    assert all(weights.grad is None for weights in model.parameters())
