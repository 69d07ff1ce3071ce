import copy
import math

import pytest
import torch
from transformers import AutoModelForSequenceClassification, Trainer, TrainerCallback
from transformers.modeling_outputs import SequenceClassifierOutput

from isoscope.core.errors import InvalidError
from isoscope.hidden_states import hidden_states_of
from tests.architectures import ARCHITECTURES
from tests.unit.workers.batches import make_config, make_rows, stack
from workers.training.metrics import Tally
from workers.training.penalties import make_penalties
from workers.training.trainer import IsotropyTrainer, choose_optimizer, make_training_arguments

ISTAR = {"regularizer": "istar", "lam": 1.0, "zeta": 0}


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def make_trainer(tmp_path, model=None, kind=IsotropyTrainer, **changes):
    """Return a function that makes a trainer on 24 random rows; keywords configure the run."""
    model = model or make_model()
    config = make_config(**{"batch_size": 8, "epochs": 1, "learning_rate": 1e-3} | changes)
    arguments = make_training_arguments(config, tmp_path, "cpu")
    penalties = make_penalties(config, model)
    arguments_of_kind = {"tally": Tally(), "penalties": penalties} if kind is IsotropyTrainer else {}
    arguments_of_kind |= {"optimizer_cls_and_kwargs": choose_optimizer(config, arguments)}
    return kind(model=model, args=arguments, train_dataset=make_rows(24), data_collator=stack, **arguments_of_kind)


def make_model(name="bert", **changes):
    torch.manual_seed(0)
    config = copy.deepcopy(ARCHITECTURES[name])
    config.update(changes)
    return AutoModelForSequenceClassification.from_config(config)


def without_dropout(trainer):
    """Disable dropout, so that the model in training mode is deterministic."""
    for module in trainer.model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    return trainer


def test_loss_is_task_loss_plus_penalty(tmp_path):
    trainer = make_trainer(tmp_path, **ISTAR | {"lam": -2.0}, fixed_regularizers={"cosreg": 1})
    model = trainer.model.eval()
    batch = stack(make_rows(8))
    outputs = model(**batch, output_hidden_states=True)
    penalty = trainer.penalties(outputs, batch, 0)
    assert trainer.compute_loss(model, batch).item() == (outputs.loss + penalty).item()
    assert trainer.tally.means() == (outputs.loss.item(), penalty.item())
    loss, returned = trainer.compute_loss(model, batch, return_outputs=True)
    assert loss.item() == (outputs.loss + penalty).item()
    assert torch.equal(returned.logits, outputs.logits)


def test_penalty_reaches_lower_weights_or_names_failing_step(tmp_path):
    trainer = make_trainer(tmp_path, **ISTAR)
    model = trainer.model
    trainer.compute_loss(model, stack(make_rows(8))).backward()
    assert all(weights.grad is not None for weights in model.bert.encoder.layer[0].parameters())
    trainer = make_trainer(tmp_path, **ISTAR | {"zeta": 0.2})
    trainer.state.global_step = 6
    with pytest.raises(InvalidError, match=r"The penalty has no value at step 7\. Expected a shrinkage covariance"):
        trainer.compute_loss(trainer.model, stack(make_rows(8)))


def test_each_step_draws_its_own_tokens(tmp_path):
    trainer = make_trainer(tmp_path, **ISTAR, token_fraction=0.5)
    trainer.model.eval()

    def penalty(step):
        trainer.state.global_step = step
        trainer.tally.clear()
        trainer.compute_loss(trainer.model, stack(make_rows(8)))
        return trainer.tally.means()[1]

    assert penalty(3) == penalty(3)
    assert len({penalty(step) for step in range(5)}) == 5


@pytest.mark.parametrize("changes", [{}, {"regularizer": "spectrum", "lam": 1.0}])
def test_hidden_states_are_not_requested_without_need(tmp_path, changes):
    trainer = make_trainer(tmp_path, **changes)
    requested = []
    trainer.model.register_forward_pre_hook(lambda *call: requested.append(call[2]), with_kwargs=True)
    trainer.train()
    assert len(requested) == 3
    assert not any("output_hidden_states" in keywords for keywords in requested)


def test_trainer_without_regularizer_matches_plain_trainer(tmp_path):
    plain = make_trainer(tmp_path, kind=Trainer)
    plain.train()
    ours = make_trainer(tmp_path)
    ours.train()
    for name, weights in plain.model.state_dict().items():
        assert torch.equal(ours.model.state_dict()[name], weights), name
    assert ours.tally.means()[1] == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ARCHITECTURES)
@pytest.mark.parametrize("regularizer", ["istar", "istar_unbiased", "cosreg", "entropy", "spectrum"])
def test_each_architecture_trains_with_each_regularizer(tmp_path, name, regularizer):
    model = make_model(name)
    before = copy.deepcopy(model.state_dict())
    changes = {"lam": 1.0, "zeta": 0, "epochs": None, "max_steps": 2, "entropy_bars": "all"}
    trainer = make_trainer(tmp_path, model, regularizer=regularizer, **changes)
    trainer.train()
    task_loss, penalty = trainer.tally.means()
    assert 0 < task_loss < 2
    assert penalty != 0
    assert math.isfinite(penalty)
    assert all(weights.isfinite().all() for weights in model.parameters())
    assert not torch.equal(model.get_input_embeddings().weight, before[embeddings_of(model)])


def embeddings_of(model):
    matrix = model.get_input_embeddings().weight
    return next(name for name, weights in model.named_parameters() if weights is matrix)


def test_accumulated_batches_have_task_gradient_of_large_batch(tmp_path):
    accumulated_gradients = gradients(make_trainer(tmp_path, accumulation=2), halves())
    joint = gradients(make_trainer(tmp_path), [stack(make_rows(16))])
    for ours, reference in zip(accumulated_gradients, joint, strict=True):
        torch.testing.assert_close(ours, reference, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("regularizer", ["istar", "istar_unbiased", "cosreg", "entropy"])
def test_accumulated_batches_have_mean_of_penalties(tmp_path, regularizer):
    """Two accumulated halves give the mean of their gradients, not the gradient of one cloud of both."""
    options = {"regularizer": regularizer, "lam": 1.0, "zeta": 0, "entropy_bars": "all"}
    trainer = make_trainer(tmp_path, **options, accumulation=2)
    accumulated_gradients = gradients(trainer, halves())
    trainers = [make_trainer(tmp_path, **options) for _ in range(2)]
    separate = [gradients(trainer, [half]) for trainer, half in zip(trainers, halves(), strict=True)]
    for ours, first, second in zip(accumulated_gradients, *separate, strict=True):
        torch.testing.assert_close(ours, (first + second) / 2, rtol=1e-4, atol=1e-7)
    joint = make_trainer(tmp_path, **options)
    gradients(joint, [stack(make_rows(16))])
    penalty, penalties = trainer.tally.means()[1], [half_trainer.tally.means()[1] for half_trainer in trainers]
    assert penalty == pytest.approx(sum(penalties) / 2)
    assert penalty != pytest.approx(joint.tally.means()[1], rel=1e-3)


def halves():
    rows = make_rows(16)
    return [stack(rows[:8]), stack(rows[8:])]


def gradients(trainer, batches):
    """Return the gradients of one step over the batches."""
    trainer = without_dropout(trainer)
    trainer.current_gradient_accumulation_steps = len(batches)
    trainer.create_optimizer()
    for batch in batches:
        trainer.training_step(trainer.model, batch, num_items_in_batch=8 * len(batches))
    return [weights.grad for weights in trainer.model.parameters()]


@pytest.mark.parametrize(("name", "kind"), [("adam", torch.optim.Adam), ("adamw", torch.optim.AdamW)])
def test_optimizer_matches_torch_with_weight_decay(tmp_path, name, kind):
    trainer = without_dropout(make_trainer(tmp_path, optimizer=name, weight_decay=0.1, batch_size=24))
    model = copy.deepcopy(trainer.model)
    decayed = [weights for weights in model.parameters() if weights.ndim > 1]
    biases = [weights for weights in model.parameters() if weights.ndim == 1]
    reference = kind([{"params": decayed, "weight_decay": 0.1}, {"params": biases, "weight_decay": 0.0}], lr=1e-3)
    trainer.train()
    model(**stack(make_rows(24))).loss.backward()
    reference.step()
    for ours, expected in zip(trainer.model.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("schedule", "factors"),
    [
        ("constant", [0, 1 / 2, 1, 1, 1, 1, 1, 1]),
        ("linear", [0, 1 / 2, 1, 5 / 6, 4 / 6, 3 / 6, 2 / 6, 1 / 6]),
        ("cosine", [0, 1 / 2] + [(1 + math.cos(math.pi * step / 6)) / 2 for step in range(6)]),
        (None, [1, 1, 1]),
    ],
)
def test_learning_rate_warms_up_and_follows_schedule(tmp_path, schedule, factors):
    changes = {"schedule": schedule, "warmup": 0.25, "epochs": None, "max_steps": 8} if schedule else {}
    assert rates(make_trainer(tmp_path, **changes)) == pytest.approx([1e-3 * factor for factor in factors])


def rates(trainer):
    """Return the learning rate of each step."""
    learning_rates = []

    class RateRecorder(TrainerCallback):
        def on_pre_optimizer_step(self, args, state, control, optimizer, **_):
            learning_rates.append(optimizer.param_groups[0]["lr"])

    trainer.add_callback(RateRecorder())
    trainer.train()
    return learning_rates


def test_bf16_keeps_weights_and_penalty_in_float32(tmp_path):
    fixed = {"istar_unbiased": 1, "cosreg": 1, "entropy": 1}
    trainer = make_trainer(tmp_path, precision="bf16", **ISTAR, fixed_regularizers=fixed)
    computed, penalties = set(), set()
    layer = trainer.model.bert.encoder.layer[0].intermediate.dense
    layer.register_forward_hook(lambda module, inputs, output: computed.add(output.dtype))
    trainer.penalties.register_forward_hook(lambda module, inputs, penalty: penalties.add(penalty.dtype))
    trainer.train()
    assert computed == {torch.bfloat16}
    assert penalties == {torch.float32}
    assert {weights.dtype for weights in trainer.model.parameters()} == {torch.float32}
    computed.clear()
    outputs = trainer.model.eval()(**stack(make_rows(8)), output_hidden_states=True)
    assert computed == {torch.bfloat16}, "evaluated in another precision than trained"
    assert {states.dtype for states in outputs.hidden_states} == {torch.float32}
    assert math.isfinite(sum(trainer.tally.means()))


def test_fp16_without_gpu_and_model_without_layers_are_refused(tmp_path):
    with pytest.raises(InvalidError, match=r"^fp16 needs a GPU, .* Choose bf16") as error:
        make_trainer(tmp_path, precision="fp16")
    assert error.value.field == "precision"
    with pytest.raises(InvalidError, match="Expected a model that shows its layers as one sequence"):
        hidden_states_of(SequenceClassifierOutput(logits=torch.zeros(1, 2)))


def test_gradient_checkpointing_trains_same_weights(tmp_path):
    models = []
    for checkpointing in (False, True):
        trainer = make_trainer(tmp_path, **ISTAR, gradient_checkpointing=checkpointing)
        trainer.train()
        assert trainer.model.is_activation_checkpointing == checkpointing
        models.append(trainer.model)
    for plain, checkpointed in zip(*(model.parameters() for model in models), strict=True):
        torch.testing.assert_close(checkpointed, plain)
