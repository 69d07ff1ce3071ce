import copy

import pytest
import torch
from transformers import (
    AutoModelForSequenceClassification,
    BertConfig,
    DistilBertConfig,
    GPT2Config,
    ModernBertConfig,
    Trainer,
)
from transformers.modeling_outputs import SequenceClassifierOutput

from app.db.config import RunConfig
from app.errors import InvalidError
from isotropy.points import union_of_layers
from isotropy.regularizers.istar import IStar
from workers.finetune.tally import Tally
from workers.finetune.trainer import IsotropyTrainer, training_arguments
from workers.hidden_states import hidden_states_of

TINY = {"vocab_size": 50, "pad_token_id": 0, "problem_type": "single_label_classification"}
BERT = BertConfig(
    **TINY, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32, max_position_embeddings=32
)


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


@pytest.fixture
def make_trainer(tmp_path):
    """A trainer on 24 random rows; keywords go to the configuration or, if it has no such thing, to the trainer."""

    def make_trainer(model=None, kind=IsotropyTrainer, accumulation=1, **keywords):
        values = {"batch_size": 8, "epochs": 1, "learning_rate": 1e-3, "seed": 0}
        config = RunConfig(
            model="m", text_columns=["t"], label_column="l", label_names=["a", "b"], regularizer="none", lam=0, **values
        )
        arguments = training_arguments(config, tmp_path, "cpu")
        arguments.gradient_accumulation_steps = accumulation
        if kind is IsotropyTrainer:
            keywords = {"tally": Tally(), **keywords}
        return kind(
            model=model or AutoModelForSequenceClassification.from_config(BERT),
            args=arguments,
            train_dataset=make_rows(24),
            data_collator=stack,
            **keywords,
        )

    return make_trainer


def make_rows(n, tokens=6):
    draw = torch.Generator().manual_seed(1)
    ids = torch.randint(4, 50, (n, tokens), generator=draw)
    lengths = torch.randint(2, tokens + 1, (n,), generator=draw)
    mask = (torch.arange(tokens) < lengths[:, None]).long()
    labels = torch.randint(0, 2, (n,), generator=draw)
    return [
        {"input_ids": i * m, "attention_mask": m, "labels": label}
        for i, m, label in zip(ids, mask, labels, strict=True)
    ]


def stack(rows):
    return {name: torch.stack([row[name] for row in rows]) for name in rows[0]}


def pad(batch, by):
    """The same batch with more padding."""
    return {name: torch.nn.functional.pad(x, (0, by)) if x.ndim == 2 else x for name, x in batch.items()}


def test_the_loss_is_the_task_s_and_the_penalty(make_trainer):
    istar = IStar(lam=-2.0, zeta=0.3)
    istar.set_shrinkage(torch.diag(torch.arange(1.0, 17)))
    trainer = make_trainer(regularizer=istar)
    model = trainer.model.eval()
    batch = stack(make_rows(8))
    outputs = model(**batch, output_hidden_states=True)
    points = union_of_layers(outputs.hidden_states, batch["attention_mask"])
    assert points.shape == (2 * int(batch["attention_mask"].sum()), 16)
    assert trainer.compute_loss(model, batch).item() == (outputs.loss + istar(points)).item()
    assert trainer.tally.means() == (outputs.loss.item(), istar(points).item())
    loss, returned = trainer.compute_loss(model, batch, return_outputs=True)
    assert loss.item() == (outputs.loss + istar(points)).item()
    assert torch.equal(returned.logits, outputs.logits)


def test_the_penalty_reaches_the_weights_below(make_trainer):
    trainer = make_trainer(regularizer=IStar(lam=1.0, zeta=0.0))
    model = trainer.model
    trainer.compute_loss(model, stack(make_rows(8))).backward()
    assert all(weights.grad is not None for weights in model.bert.encoder.layer[0].parameters())


def test_padding_does_not_change_the_penalty_unless_it_is_included(make_trainer):
    batch = stack(make_rows(8))
    for include_padding in (False, True):
        trainer = make_trainer(regularizer=IStar(lam=1.0, zeta=0.0), include_padding=include_padding)
        trainer.model.eval()
        penalties = []
        for padded in (batch, pad(batch, by=9)):
            trainer.tally.clear()
            trainer.compute_loss(trainer.model, padded)
            penalties.append(trainer.tally.means()[1])
        assert (penalties[0] == pytest.approx(penalties[1], abs=1e-6)) != include_padding


def test_layers_can_be_chosen(make_trainer):
    batch = stack(make_rows(8))
    penalties = []
    for layers in (None, [1], [2], [1, 2]):
        trainer = make_trainer(make_bert(), regularizer=IStar(lam=1.0, zeta=0.0), layers=layers)
        trainer.compute_loss(trainer.model.eval(), batch)
        penalties.append(trainer.tally.means()[1])
    assert penalties[0] == penalties[3]
    assert len(set(penalties)) == 3


def test_of_a_part_of_the_tokens_the_penalty_is_drawn_by_seed_and_step(make_trainer):
    batch = stack(make_rows(8))
    trainer = make_trainer(make_bert(), regularizer=IStar(lam=1.0, zeta=0.0), token_fraction=0.5)
    trainer.model.eval()
    state = torch.get_rng_state()

    def penalty(step):
        trainer.state.global_step = step
        trainer.tally.clear()
        trainer.compute_loss(trainer.model, batch)
        return trainer.tally.means()[1]

    assert penalty(3) == penalty(3)
    assert len({penalty(step) for step in range(5)}) == 5
    assert torch.equal(torch.get_rng_state(), state)

    of_seed_0 = {penalty(step) for step in range(5)}
    trainer.args.seed = 1
    assert of_seed_0.isdisjoint(penalty(step) for step in range(5))


def test_of_a_part_of_the_tokens_padding_counts_where_it_is_included(make_trainer):
    batch = stack(make_rows(8))
    trainer = make_trainer(regularizer=IStar(lam=1.0, zeta=0.0), token_fraction=0.5, include_padding=True)
    seen = []
    trainer.regularizer.register_forward_pre_hook(lambda module, points: seen.append(points[0].shape))
    trainer.compute_loss(trainer.model, batch)
    assert seen == [(2 * batch["attention_mask"].numel() // 2, 16)]


def test_without_a_regularizer_it_is_a_plain_trainer(make_trainer):
    plain = make_trainer(make_bert(), Trainer)
    plain.train()
    ours = make_trainer(make_bert())
    asked = []
    ours.model.register_forward_pre_hook(lambda *call: asked.append(call[2]), with_kwargs=True)
    ours.train()
    for name, weights in plain.model.state_dict().items():
        assert torch.equal(ours.model.state_dict()[name], weights), name
    assert asked
    assert not any("output_hidden_states" in keywords for keywords in asked)
    assert ours.tally.means()[1] == 0


def test_accumulated_batches_count_by_their_mean(make_trainer):
    """Two halves accumulated give the mean of the halves' gradients, of task and penalty alike."""
    model = make_bert()
    model.config.hidden_dropout_prob = 0
    trainer = make_trainer(copy.deepcopy(model).eval(), accumulation=2, regularizer=IStar(lam=1.0, zeta=0.0))
    rows = make_rows(16)
    trainer.current_gradient_accumulation_steps = 2
    trainer.create_optimizer()
    trainer.model.train = lambda mode=True: trainer.model
    for half in (rows[:8], rows[8:]):
        trainer.training_step(trainer.model, stack(half), num_items_in_batch=16)
    expected = copy.deepcopy(model).eval()
    losses = [trainer.compute_loss(expected, stack(half)) for half in (rows[:8], rows[8:])]
    (sum(losses) / 2).backward()
    for ours, theirs in zip(trainer.model.parameters(), expected.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad)


@pytest.mark.parametrize(
    "config",
    [
        DistilBertConfig(**TINY, dim=16, n_layers=2, n_heads=2, hidden_dim=32, max_position_embeddings=32),
        GPT2Config(**TINY, n_embd=16, n_layer=2, n_head=2, n_positions=32, bos_token_id=1, eos_token_id=1),
        ModernBertConfig(
            **TINY,
            hidden_size=16,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=32,
            num_labels=2,
            max_position_embeddings=32,
            cls_token_id=1,
            sep_token_id=2,
            bos_token_id=1,
            eos_token_id=2,
        ),
    ],
    ids=lambda config: config.model_type,
)
def test_other_architectures_are_trained_the_same_way(make_trainer, config):
    trainer = make_trainer(AutoModelForSequenceClassification.from_config(config), regularizer=IStar(lam=1.0, zeta=0.0))
    trainer.train()
    task_loss, penalty = trainer.tally.means()
    assert 0 < task_loss < 2
    assert 0 < penalty < 1


def test_a_model_that_does_not_show_its_layers_is_refused():
    with pytest.raises(InvalidError, match="Expected a model that shows its layers as one sequence"):
        hidden_states_of(SequenceClassifierOutput(logits=torch.zeros(1, 2)))


def make_bert():
    torch.manual_seed(0)
    return AutoModelForSequenceClassification.from_config(BERT)
