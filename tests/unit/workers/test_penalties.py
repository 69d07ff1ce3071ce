from contextlib import nullcontext
from functools import partial
from types import SimpleNamespace

import datasets
import numpy as np
import pytest
import torch
from transformers import AutoModelForSequenceClassification, BertConfig, BertForSequenceClassification
from transformers.utils.generic import ModelOutput

from app.db.config import OPTIONS, option_applies
from app.db.models import Phase
from isotropy.catalog import REGULARIZERS, Regularizer, TokenPooling
from isotropy.points import union_of_layers
from isotropy.regularizers.cosreg import CosReg
from isotropy.regularizers.istar import IStar
from isotropy.regularizers.persistent_entropy import PersistentEntropy
from isotropy.regularizers.spectrum_control import SpectrumControl
from isotropy.regularizers.unbiased_istar import UnbiasedIStar
from tests.architectures import ARCHITECTURES
from tests.unit.workers.batches import make_config, make_rows, pad, stack
from workers.training.inference import TokenizedRows
from workers.training.penalties import ShrinkageCallback, draw_shrinkage_rows, make_penalties

LAM = -2.0
istar_config = partial(make_config, regularizer="istar", lam=LAM, zeta=0)


@pytest.fixture
def batch():
    return stack(make_rows(8))


@pytest.fixture
def compute_penalty(batch):
    """Return a function that gives the penalty of the batch and the model's hidden states."""

    def compute_penalty(name="bert", step=0, inputs=batch, **changes):
        torch.manual_seed(0)
        model = AutoModelForSequenceClassification.from_config(ARCHITECTURES[name]).eval()
        penalties = make_penalties(istar_config(**changes), model)
        if penalties.shrinking_istar is not None:
            penalties.shrinking_istar.set_shrinkage(torch.diag(torch.arange(1.0, 17)))
        outputs = model(**inputs, output_hidden_states=True)
        return penalties(outputs, inputs, step), outputs.hidden_states

    return compute_penalty


def first(states, mask):
    return states[:, 0]


def mean(states, mask):
    return torch.stack([row[: int(n)].mean(0) for row, n in zip(states, mask.sum(1), strict=True)])


def tokens(states, mask):
    return states[mask.bool()]


def test_istar_uses_tokens_of_all_layers_as_one_cloud(compute_penalty, batch):
    penalty, states = compute_penalty(zeta=0.3)
    istar = IStar(LAM, 0.3)
    istar.set_shrinkage(torch.diag(torch.arange(1.0, 17)))
    points = union_of_layers(states, batch["attention_mask"])
    assert points.shape == (2 * int(batch["attention_mask"].sum()), 16)
    torch.testing.assert_close(penalty, istar(points))


@pytest.mark.parametrize(
    ("regularizer", "changes", "layers", "pool"),
    [
        ("istar_unbiased", {}, [1, 2], mean),
        ("istar_unbiased", {"points": "mean"}, [1, 2], mean),
        ("istar_unbiased", {"points": "sentence"}, [1, 2], first),
        ("istar_unbiased", {"layers": "last"}, [2], mean),
        ("istar_unbiased", {"layers": [1]}, [1], mean),
        ("cosreg", {}, [2], tokens),
        ("cosreg", {"layers": "all"}, [1, 2], tokens),
        ("cosreg", {"layers": [1]}, [1], tokens),
        ("cosreg", {"points": "sentence"}, [2], first),
        ("cosreg", {"points": "mean", "layers": [1, 2]}, [1, 2], mean),
    ],
)
def test_unbiased_istar_and_cosreg_average_over_layers(compute_penalty, batch, regularizer, changes, layers, pool):
    penalty, states = compute_penalty(regularizer=regularizer, **changes)
    clouds = [pool(states[layer], batch["attention_mask"]) for layer in layers]
    cosreg, unbiased = CosReg(LAM), UnbiasedIStar(LAM)
    layer_penalties = [cosreg(x) if regularizer == "cosreg" else unbiased([x]) for x in clouds]
    torch.testing.assert_close(penalty, torch.stack(layer_penalties).mean())


@pytest.mark.parametrize(
    ("changes", "pool", "labeled"),
    [
        ({}, first, True),
        ({"entropy_by_label": False, "entropy_bars": "all"}, first, False),
        ({"task": "regression", "metric": "pearson", "label_names": [], "entropy_bars": "all"}, first, False),
        ({"task": "span", "metric": "word_f1", "label_names": [], "entropy_bars": "all"}, first, False),
        ({"entropy_bars": "all"}, first, True),
        ({"entropy_cluster_weight": 0.5}, first, True),
        ({"points": "tokens"}, tokens, True),
    ],
)
def test_entropy_uses_last_layer_by_class(compute_penalty, batch, changes, pool, labeled):
    penalty, states = compute_penalty(regularizer="entropy", **changes)
    bars, weight = changes.get("entropy_bars", "prominent"), changes.get("entropy_cluster_weight", 0)
    entropy = PersistentEntropy(LAM, bars=bars, cluster_weight=weight)
    labels = batch["labels"]
    if pool is tokens:
        labels = labels[:, None].expand_as(batch["attention_mask"])[batch["attention_mask"].bool()]
    expected = entropy(pool(states[-1], batch["attention_mask"]), labels if labeled else None)
    torch.testing.assert_close(penalty, expected)
    assert penalty != 0


def test_spectrum_control_uses_embedding_matrix_only(batch):
    model = AutoModelForSequenceClassification.from_config(ARCHITECTURES["albert"]).eval()
    penalties = make_penalties(istar_config(regularizer="spectrum"), model)
    assert penalties.selectors == {}
    penalty = penalties(model(**batch), batch, 0)
    torch.testing.assert_close(penalty, SpectrumControl(LAM)(model.get_input_embeddings().weight))
    penalty.backward()
    assert model.get_input_embeddings().weight.grad.abs().sum() > 0


@pytest.mark.parametrize("side", ["right", "left"])
def test_text_vector_of_causal_model_is_last_real_token(compute_penalty, batch, side):
    if side == "left":
        batch = {name: x.flip(1) if x.ndim == 2 else x for name, x in batch.items()}
    penalty, states = compute_penalty("gpt2", inputs=batch, regularizer="cosreg", points="sentence")
    last = [int(row.nonzero().max()) for row in batch["attention_mask"]]
    torch.testing.assert_close(penalty, CosReg(LAM)(states[-1][torch.arange(8), last]))


@pytest.mark.parametrize(
    ("regularizer", "points"),
    [("istar", "tokens"), ("cosreg", "tokens"), ("istar_unbiased", "mean"), ("entropy", "sentence")],
)
def test_padding_changes_penalty_only_if_included(compute_penalty, batch, regularizer, points):
    for include_padding in (False, True):
        penalty_of = partial(compute_penalty, regularizer=regularizer, points=points, include_padding=include_padding)
        penalties = [penalty_of(inputs=padded)[0].item() for padded in (batch, pad(batch, by=9))]
        same = penalties[0] == pytest.approx(penalties[1], abs=1e-5)
        assert same != (include_padding and points == "tokens")


def test_penalties_add_up_and_token_draws_follow_seed_and_step(compute_penalty):
    def penalty(step, seed=0):
        return compute_penalty(step=step, seed=seed, token_fraction=0.5)[0].item()

    assert penalty(3) == penalty(3)
    penalties_of_seed_0 = {penalty(step) for step in range(5)}
    assert len(penalties_of_seed_0) == 5
    assert penalties_of_seed_0.isdisjoint(penalty(step, seed=1) for step in range(5))
    cosreg, entropy = (compute_penalty(regularizer=name)[0] for name in ("cosreg", "entropy"))
    penalties, _ = compute_penalty(regularizer="cosreg", fixed_regularizers={"entropy": 3.0, "istar": 0})
    torch.testing.assert_close(penalties, cosreg + 3.0 / LAM * entropy)


CHANGES = {
    "layers": [1], "points": "mean", "include_padding": True, "token_fraction": 0.5, "entropy_bars": "all",
    "entropy_by_label": False, "entropy_cluster_weight": 1.0, "zeta": 0.3,
}  # fmt: skip
"""A non-default value of each setting; the shrinkage covariance is estimated elsewhere."""


@pytest.mark.parametrize("regularizer", REGULARIZERS)
def test_option_applies_matches_penalties(compute_penalty, regularizer):
    wrong = []
    for points in (None, "tokens", "sentence"):
        if regularizer is Regularizer.UNBIASED and points == "tokens":
            continue  # refused
        plain = compute_penalty(regularizer=regularizer, points=points)[0].item()
        for field, value in CHANGES.items():
            if regularizer is Regularizer.UNBIASED and field == "points" and points is None:
                continue  # its default is means
            changed = compute_penalty(**{"regularizer": regularizer, "points": points, field: value})[0].item()
            differs = plain != pytest.approx(changed, abs=1e-6)
            if differs != option_applies(field, {regularizer}, points and TokenPooling(points)):
                wrong.append((points, field))
    assert wrong == []


@pytest.mark.parametrize("regularizer", REGULARIZERS)
def test_shrinkage_is_estimated_only_if_its_options_apply(regularizer):
    model = AutoModelForSequenceClassification.from_config(ARCHITECTURES["bert"])
    penalties = make_penalties(istar_config(regularizer=regularizer, zeta=0.3), model)
    read = {option_applies(field, {regularizer}, None) for field in OPTIONS if field.startswith("shrinkage")}
    assert read == {penalties.shrinking_istar is not None}


def test_option_tests_cover_all_regularizer_options():
    regularizer_options = {name for name, option in OPTIONS.items() if option.applies_to is not None}
    assert regularizer_options == {*CHANGES, *(field for field in OPTIONS if field.startswith("shrinkage"))}


@pytest.mark.parametrize("include_padding", [False, True])
def test_token_fraction_applies_to_counted_tokens(batch, include_padding):
    model = AutoModelForSequenceClassification.from_config(ARCHITECTURES["bert"])
    fixed = {"cosreg": 1, "istar_unbiased": 1}
    config = istar_config(token_fraction=0.5, include_padding=include_padding, fixed_regularizers=fixed)
    penalties, clouds = make_penalties(config, model), {}
    for name, module in penalties.regularizers.items():
        module.register_forward_pre_hook(lambda _, points, name=name: clouds.update({name: len(points[0])}))
    outputs = model(**batch, output_hidden_states=True)
    state = torch.get_rng_state()
    penalties(outputs, batch, 0)
    assert torch.equal(torch.get_rng_state(), state), "the random state of the training changed"
    mask = batch["attention_mask"]
    half = -(-(mask.numel() if include_padding else int(mask.sum())) // 2)
    assert clouds == {"istar": 2 * half, "cosreg": half, "istar_unbiased": 2}


@pytest.mark.parametrize("regularizer", ["istar", "istar_unbiased", "cosreg", "spectrum"])
def test_penalties_of_whole_batch_leave_values_on_device(monkeypatch, batch, regularizer):
    """Tensors on the meta device have no values that a step could wait for."""
    monkeypatch.setattr(torch, "autocast", lambda *_, **__: nullcontext())  # the meta device has none
    with torch.device("meta"):
        model = AutoModelForSequenceClassification.from_config(ARCHITECTURES["bert"])
        states = [torch.empty(8, batch["labels"].shape[0], 16, requires_grad=True) for _ in range(3)]
    penalties = make_penalties(istar_config(regularizer=regularizer), model)
    batch = {name: torch.ones(8, 8, dtype=torch.long, device="meta") for name in batch}
    penalty = penalties(ModelOutput(hidden_states=states), batch, 0)
    penalty.backward()
    assert (penalty.device.type, penalty.dtype) == ("meta", torch.float32)


def test_state_holds_only_shrinkage_covariance():
    model = AutoModelForSequenceClassification.from_config(ARCHITECTURES["bert"])
    penalties = make_penalties(istar_config(zeta=0.3, fixed_regularizers={"spectrum": 1, "entropy": 1}), model)
    penalties.shrinking_istar.set_shrinkage(torch.eye(16))
    state = penalties.state_dict()
    assert list(state) == ["regularizers.istar.shrinkage_covariance"]
    fresh = make_penalties(penalties.config, model)
    fresh.load_state_dict(state)
    assert torch.equal(fresh.shrinking_istar.shrinkage_covariance, torch.eye(16))
    assert list(fresh.parameters()) == []


@pytest.mark.parametrize(
    ("changes", "shrunk"),
    [({"regularizer": "none"}, None), ({"lam": 0}, None), ({"lam": 0, "fixed_regularizers": {"cosreg": 0}}, None),
     ({"zeta": 0.3}, True), ({}, False), ({"regularizer": "cosreg"}, False)],
)  # fmt: skip
def test_only_istar_with_positive_zeta_is_shrunk(changes, shrunk):
    model = AutoModelForSequenceClassification.from_config(ARCHITECTURES["bert"])
    penalties = make_penalties(istar_config(**changes), model)
    assert (penalties and penalties.shrinking_istar is not None) is shrunk


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
    config = make_config(**{"regularizer": "istar", "lam": 1, "batch_size": 2} | changes)
    lengths = np.array([len(text) for text in TEXTS])
    rows = TokenizedRows(datasets.Dataset.from_dict({"input_ids": TEXTS}), lengths, collate)
    penalties, progress = make_penalties(config, model), Progress()
    selector = penalties.selectors[Regularizer.ISTAR]
    callback = ShrinkageCallback(penalties.shrinking_istar, selector, model, rows, config, progress)
    return callback, penalties.shrinking_istar, progress


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
def test_draw_shrinkage_rows_counts_one_point_per_pooled_text_or_token(model, points, n_points, rows):
    callback, _, _ = make_callback(model, points=points, shrinkage_points=n_points)
    lengths = np.full(100, 6)
    assert len(draw_shrinkage_rows(lengths, callback.selector, callback.config, 0)) == rows


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
