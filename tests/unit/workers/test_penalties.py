from functools import partial

import pytest
import torch
from transformers import AutoModelForSequenceClassification

from app.db.config import OPTIONS, RunConfig, option_applies
from isotropy.catalog import REGULARIZERS, Regularizer, TokenPooling
from isotropy.points import union_of_layers
from isotropy.regularizers.cosreg import CosReg
from isotropy.regularizers.istar import IStar
from isotropy.regularizers.persistent_entropy import PersistentEntropy
from isotropy.regularizers.spectrum_control import SpectrumControl
from isotropy.regularizers.unbiased_istar import UnbiasedIStar
from tests.architectures import ARCHITECTURES
from tests.unit.workers.batches import make_rows, pad, stack
from workers.training.penalties import make_penalties

LAM = -2.0


@pytest.fixture
def batch():
    return stack(make_rows(8))


@pytest.fixture
def see(batch):
    """Return the penalties of a configuration, the model's outputs, and the penalty of the batch by itself."""

    def see(name="bert", step=0, inputs=batch, **changes):
        torch.manual_seed(0)
        model = AutoModelForSequenceClassification.from_config(ARCHITECTURES[name]).eval()
        penalties = make_penalties(make_config(**changes), model)
        if penalties.shrinking_istar is not None:
            penalties.shrinking_istar.set_shrinkage(torch.diag(torch.arange(1.0, 17)))
        outputs = model(**inputs, output_hidden_states=True)
        return penalties(outputs, inputs, step), outputs.hidden_states

    return see


def make_config(**changes):
    values = {"model": "m", "text_columns": ["t"], "label_column": "l", "label_names": ["a", "b"], "seed": 0}
    return RunConfig.model_validate(values | {"regularizer": "istar", "lam": LAM, "zeta": 0} | changes)


def first(states, mask):
    return states[:, 0]


def mean(states, mask):
    return torch.stack([row[: int(n)].mean(0) for row, n in zip(states, mask.sum(1), strict=True)])


def tokens(states, mask):
    return states[mask.bool()]


def test_i_star_sees_every_token_of_all_layers_as_one_cloud(see, batch):
    penalty, states = see(zeta=0.3)
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
def test_the_bias_corrected_i_star_sees_texts_cosreg_tokens_each_layer_by_itself(
    see, batch, regularizer, changes, layers, pool
):
    penalty, states = see(regularizer=regularizer, **changes)
    clouds = [pool(states[layer], batch["attention_mask"]) for layer in layers]
    cosreg, unbiased = CosReg(LAM), UnbiasedIStar(LAM)
    of_layers = [cosreg(x) if regularizer == "cosreg" else unbiased([x]) for x in clouds]
    torch.testing.assert_close(penalty, torch.stack(of_layers).mean())


@pytest.mark.parametrize(
    ("changes", "pool", "labelled"),
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
def test_entropy_sees_the_texts_of_the_last_layer_class_by_class(see, batch, changes, pool, labelled):
    penalty, states = see(regularizer="entropy", **changes)
    bars, weight = changes.get("entropy_bars", "prominent"), changes.get("entropy_cluster_weight", 0)
    entropy = PersistentEntropy(LAM, bars=bars, cluster_weight=weight)
    labels = batch["labels"]
    if pool is tokens:
        labels = labels[:, None].expand_as(batch["attention_mask"])[batch["attention_mask"].bool()]
    expected = entropy(pool(states[-1], batch["attention_mask"]), labels if labelled else None)
    torch.testing.assert_close(penalty, expected)
    assert penalty != 0


def test_spectrum_control_sees_the_embedding_matrix_and_asks_for_no_layer(batch):
    model = AutoModelForSequenceClassification.from_config(ARCHITECTURES["albert"]).eval()
    penalties = make_penalties(make_config(regularizer="spectrum"), model)
    assert penalties.selectors == {}
    penalty = penalties(model(**batch), batch, 0)
    torch.testing.assert_close(penalty, SpectrumControl(LAM)(model.get_input_embeddings().weight))
    penalty.backward()
    assert model.get_input_embeddings().weight.grad.abs().sum() > 0


@pytest.mark.parametrize("side", ["right", "left"])
def test_a_text_of_a_causal_model_is_its_last_token_that_is_not_padding(see, batch, side):
    if side == "left":
        batch = {name: x.flip(1) if x.ndim == 2 else x for name, x in batch.items()}
    penalty, states = see("gpt2", inputs=batch, regularizer="cosreg", points="sentence")
    last = [int(row.nonzero().max()) for row in batch["attention_mask"]]
    torch.testing.assert_close(penalty, CosReg(LAM)(states[-1][torch.arange(8), last]))


@pytest.mark.parametrize(
    ("regularizer", "points"),
    [("istar", "tokens"), ("cosreg", "tokens"), ("istar_unbiased", "mean"), ("entropy", "sentence")],
)
def test_padding_does_not_change_a_penalty_unless_it_is_included_among_tokens(see, batch, regularizer, points):
    for include_padding in (False, True):
        look = partial(see, regularizer=regularizer, points=points, include_padding=include_padding)
        penalties = [look(inputs=padded)[0].item() for padded in (batch, pad(batch, by=9))]
        same = penalties[0] == pytest.approx(penalties[1], abs=1e-5)
        assert same != (include_padding and points == "tokens")


def test_penalties_add_up_and_of_a_part_of_the_tokens_are_drawn_by_seed_and_step(see):
    def penalty(step, seed=0):
        return see(step=step, seed=seed, token_fraction=0.5)[0].item()

    assert penalty(3) == penalty(3)
    of_seed_0 = {penalty(step) for step in range(5)}
    assert len(of_seed_0) == 5
    assert of_seed_0.isdisjoint(penalty(step, seed=1) for step in range(5))
    cosreg, entropy = (see(regularizer=name)[0] for name in ("cosreg", "entropy"))
    penalties, _ = see(regularizer="cosreg", fixed_regularizers={"entropy": 3.0, "istar": 0})
    torch.testing.assert_close(penalties, cosreg + 3.0 / LAM * entropy)


CHANGES = {
    "layers": [1], "points": "mean", "include_padding": True, "token_fraction": 0.5, "entropy_bars": "all",
    "entropy_by_label": False, "entropy_cluster_weight": 1.0, "zeta": 0.3,
}  # fmt: skip
"""A value of each setting that is not its default; the shrinkage covariance is estimated beside the penalties."""


@pytest.mark.parametrize("regularizer", REGULARIZERS)
def test_the_table_of_what_is_read_is_true(see, regularizer):
    wrong = []
    for points in (None, "tokens", "sentence"):
        if regularizer is Regularizer.UNBIASED and points == "tokens":
            continue  # it is refused them
        plain = see(regularizer=regularizer, points=points)[0].item()
        for field, value in CHANGES.items():
            if regularizer is Regularizer.UNBIASED and field == "points" and points is None:
                continue  # its own are means
            changed = see(**{"regularizer": regularizer, "points": points, field: value})[0].item()
            differs = plain != pytest.approx(changed, abs=1e-6)
            if differs != option_applies(field, {regularizer}, points and TokenPooling(points)):
                wrong.append((points, field))
    assert wrong == []


@pytest.mark.parametrize("regularizer", REGULARIZERS)
def test_a_shrinkage_covariance_is_estimated_for_those_that_read_its_settings(regularizer):
    model = AutoModelForSequenceClassification.from_config(ARCHITECTURES["bert"])
    penalties = make_penalties(make_config(regularizer=regularizer, zeta=0.3), model)
    read = {option_applies(field, {regularizer}, None) for field in OPTIONS if field.startswith("shrinkage")}
    assert read == {penalties.shrinking_istar is not None}


def test_the_table_is_of_settings_that_there_are():
    of_regularizers = {name for name, option in OPTIONS.items() if option.applies_to is not None}
    assert of_regularizers == {*CHANGES, *(field for field in OPTIONS if field.startswith("shrinkage"))}


@pytest.mark.parametrize("include_padding", [False, True])
def test_a_part_of_the_tokens_is_one_of_all_that_count(batch, include_padding):
    model = AutoModelForSequenceClassification.from_config(ARCHITECTURES["bert"])
    fixed = {"cosreg": 1, "istar_unbiased": 1}
    config = make_config(token_fraction=0.5, include_padding=include_padding, fixed_regularizers=fixed)
    penalties, clouds = make_penalties(config, model), {}
    for name, module in penalties.regularizers.items():
        module.register_forward_pre_hook(lambda _, points, name=name: clouds.update({name: len(points[0])}))
    outputs = model(**batch, output_hidden_states=True)
    state = torch.get_rng_state()
    penalties(outputs, batch, 0)
    assert torch.equal(torch.get_rng_state(), state), "the training's own random state"
    mask = batch["attention_mask"]
    half = -(-(mask.numel() if include_padding else int(mask.sum())) // 2)
    assert clouds == {"istar": 2 * half, "cosreg": half, "istar_unbiased": 2}


@pytest.mark.parametrize("regularizer", ["istar", "istar_unbiased", "cosreg", "entropy"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_points_of_half_precision_have_their_penalty_in_float32(batch, regularizer, dtype):
    model = AutoModelForSequenceClassification.from_config(ARCHITECTURES["bert"]).eval()
    penalties = make_penalties(make_config(regularizer=regularizer), model)
    outputs = model(**batch, output_hidden_states=True)
    exact = penalties(outputs, batch, 0)
    outputs.hidden_states = tuple(states.to(dtype) for states in outputs.hidden_states)
    rounded = penalties(outputs, batch, 0)
    assert rounded.dtype == torch.float32
    torch.testing.assert_close(rounded, exact, rtol=0.02, atol=0.02)


def test_the_state_is_the_shrinkage_covariance_and_nothing_of_the_model():
    model = AutoModelForSequenceClassification.from_config(ARCHITECTURES["bert"])
    penalties = make_penalties(make_config(zeta=0.3, fixed_regularizers={"spectrum": 1, "entropy": 1}), model)
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
def test_a_run_without_a_weight_has_no_penalties_and_only_i_star_with_zeta_above_0_is_shrunk(changes, shrunk):
    model = AutoModelForSequenceClassification.from_config(ARCHITECTURES["bert"])
    penalties = make_penalties(make_config(**changes), model)
    assert (penalties and penalties.shrinking_istar is not None) is shrunk
