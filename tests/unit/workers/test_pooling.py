import pytest
import torch
import transformers

from app.db.config import RunConfig
from app.db.models import Pooling
from isoscope.core.errors import InvalidError
from isoscope.hidden_states import depth, evaluation_mode, hidden_states_of, width
from tests.architectures import ARCHITECTURES, TINY
from tests.tiny import make_tokenizer, tiny_configs
from workers.models import ModelSource, match_tokenizer_to_model, max_input_length, pool, sentence_pooling
from workers.training.tasks import TASKS
from workers.training.trainer import load_model

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
    "modernbert-mean": transformers.ModernBertConfig.from_dict(MODERNBERT | {"classifier_pooling": "mean"}),
    "bloom": transformers.BloomConfig(**TINY, hidden_size=16, n_layer=2, n_head=2),
}


@pytest.mark.parametrize(
    ("name", "on_the_left"), [*((name, False) for name in HEADS), *((name, True) for name in CAUSAL)]
)
def test_sentence_pooling_matches_classification_head(name, on_the_left):
    torch.manual_seed(0)
    model = transformers.AutoModelForSequenceClassification.from_config(HEADS[name]).eval()
    ids = PADDED.flip(1) if on_the_left else PADDED
    mask = (ids != 0).long()
    outputs = model(input_ids=ids, attention_mask=mask, output_hidden_states=True)
    last = outputs.hidden_states[-1]
    (head_gradient,) = torch.autograd.grad(outputs.logits.sum(), last, retain_graph=True)
    (pool_gradient,) = torch.autograd.grad(pool(last, mask, sentence_pooling(model)).sum(), last)
    assert torch.equal(head_gradient.abs().sum(-1) > 0, pool_gradient.abs().sum(-1) > 0)


def test_sentence_pooling_finds_last_token_without_side_effects():
    config = transformers.XLNetConfig(**TINY, d_model=16, n_layer=2, n_head=2, d_inner=32)
    assert sentence_pooling(transformers.AutoModelForSequenceClassification.from_config(config)) is Pooling.LAST
    model = transformers.AutoModelForSequenceClassification.from_config(ARCHITECTURES["gpt2"]).train()
    before = torch.get_rng_state()
    sentence_pooling(model)
    assert torch.equal(torch.get_rng_state(), before)
    assert model.training


@pytest.mark.parametrize(("name", "pooling"), [("bert", Pooling.FIRST), ("gpt2", Pooling.LAST)])
def test_sentence_pooling_of_span_model_matches_classification(name, pooling):
    assert sentence_pooling(transformers.AutoModelForQuestionAnswering.from_config(ARCHITECTURES[name])) is pooling


MODELS = [f"tiny-{config.model_type}" for config in tiny_configs()]
KINDS = {
    "classification": {"metric": "accuracy", "label_names": ["0", "1", "2"], "label_column": "class"},
    "regression": {"metric": "pearson", "label_names": [], "label_column": "score"},
    "span": {"metric": "word_f1", "label_names": [], "label_column": "answers"},
}
COLUMNS = {
    "first": ["a film", "the plot is so very dull and bad", "good"],
    "second": ["the cast", "a plot", "the film was great and very good"],
    "class": [0, 1, 2],
    "score": [0.5, 1.5, 2.5],
    "answers": ['{"text": ["cast"], "answer_start": [4]}', '{"text": ["plot"], "answer_start": [2]}',
                '{"text": ["very good"], "answer_start": [23]}'],
}  # fmt: skip


def make_task(kind, model="tiny-bert", seed=0, **changes):
    values = {"model": model, "task": kind, "text_columns": ["first", "second"], "regularizer": "none", "lam": 0}
    return TASKS[kind](RunConfig.model_validate({**values, **KINDS[kind], "seed": seed, "stride": 4, **changes}))


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("name", MODELS)
def test_padding_changes_no_output_and_all_weights_have_gradients(models_dir, name, kind):
    task = make_task(kind, name)
    model, tokenizer = load_model(ModelSource(models_dir / name, None), task)
    rows = task.encode(COLUMNS, tokenizer, max_input_length(model, tokenizer, 128))
    outputs = ["start_logits", "end_logits"] if kind == "span" else ["logits"]
    with evaluation_mode(model):
        (batched,) = (model(**batch, output_hidden_states=True) for batch in rows.batches(range(3), 3, model.device))
        singles = [model(**batch) for batch in rows.batches(range(3), 1, model.device)]
    states = hidden_states_of(batched)
    assert (len(states), states[-1].shape[-1]) == (1 + depth(model), width(model)) == (3, 16)
    for output in outputs:
        for row, single in enumerate(singles):
            real = slice(0, rows.token_counts[row]) if kind == "span" else slice(None)
            torch.testing.assert_close(batched[output][row, real], single[output][0, real])
    losses = torch.stack([output.loss for output in singles])
    torch.testing.assert_close(batched.loss, losses.mean())
    (batch,) = rows.batches(range(3), 3, model.device)
    model(**batch).loss.backward()
    # Training in several processes waits for every gradient.
    assert [weights for weights, parameter in model.named_parameters() if parameter.grad is None] == []


def test_new_head_is_drawn_by_seed_and_checkpointing_needs_support(models_dir):
    source = ModelSource(models_dir / "tiny-bert", None)
    heads = [load_model(source, make_task("regression", seed=seed))[0].classifier.weight for seed in (0, 0, 1)]
    assert heads[0].shape == (1, 16)
    assert torch.equal(heads[0], heads[1])
    assert not torch.equal(heads[0], heads[2])
    task = make_task("classification", "tiny-albert", gradient_checkpointing=True)
    with pytest.raises(
        InvalidError, match=r"^transformers does not support gradient checkpointing for 'tiny-albert'.* Leave it out"
    ):
        load_model(ModelSource(models_dir / "tiny-albert", None), task)
    task = make_task("classification", gradient_checkpointing=True)
    assert load_model(ModelSource(models_dir / "tiny-bert", None), task)[0].supports_gradient_checkpointing


@pytest.mark.parametrize(
    ("name", "typed"), [("tiny-bert", True), ("tiny-albert", True), ("tiny-roberta", False), ("tiny-gpt2", False)]
)
def test_second_text_has_type_id_only_if_model_has_two(models_dir, name, typed):
    model, _ = load_model(ModelSource(models_dir / name, None), make_task("classification", name))
    tokenizer = make_tokenizer()
    tokenizer.model_input_names = ["input_ids", "token_type_ids", "attention_mask"]
    match_tokenizer_to_model(model, tokenizer)
    encoded = tokenizer("a film", "a plot", return_tensors="pt")
    assert ("token_type_ids" in encoded) is typed
    assert model(**encoded).logits.shape == (1, 3)
