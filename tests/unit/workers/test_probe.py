from types import SimpleNamespace

import datasets
import numpy as np
import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification

from app.db.config import RunConfig
from isotropy.anisotropy import anisotropy
from isotropy.cosine import CosineMoments
from isotropy.isoscore import isoscore
from isotropy.spectrum import eigenvalues
from isotropy.unbiased import isoscore_unbiased
from workers.failure import NotFiniteError
from workers.training.inference import TokenizedRows
from workers.training.metrics import MetricsCallback, Probe, Tally


def make_rows(n, longest=9):
    draw = np.random.default_rng(n)
    texts = [draw.integers(4, 50, size=length).tolist() for length in draw.integers(2, longest + 1, size=n)]
    columns = {"input_ids": texts, "labels": [0] * n}
    return TokenizedRows(datasets.Dataset.from_dict(columns), np.array([len(text) for text in texts]), collate)


def collate(rows):
    ids = torch.nn.utils.rnn.pad_sequence([torch.tensor(row["input_ids"]) for row in rows], batch_first=True)
    labels = torch.tensor([row["labels"] for row in rows])
    return {"input_ids": ids, "attention_mask": (ids != 0).long(), "labels": labels}


def make_probe(rows, **changes):
    torch.manual_seed(0)
    sizes = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
    model = BertForSequenceClassification(BertConfig(vocab_size=50, pad_token_id=0, **sizes))
    values = {"model": "m", "text_columns": ["t"], "label_column": "l", "label_names": ["a", "b"], "seed": 0}
    return Probe(model, rows, RunConfig.model_validate({**values, "regularizer": "none", "lam": 0, **changes}))


def test_probe_matches_isotropy_for_every_layer():
    probe = make_probe(make_rows(40), batch_size=1)
    measured = probe.measure()
    probe.model.eval()
    with torch.no_grad():
        texts = [
            probe.model(torch.tensor([probe.rows.dataset[int(i)]["input_ids"]]), output_hidden_states=True)
            for i in probe.indices
        ]
    for layer in (0, 1):
        states = [text.hidden_states[layer + 1][0] for text in texts]
        tokens, means = torch.cat(states), torch.stack([text.mean(0) for text in states])
        cosines = CosineMoments(8)
        cosines.update(tokens)
        raw, centered = (
            anisotropy(eigenvalues(S), 3) for S in (tokens.T.double() @ tokens.double(), tokens.T.double().cov())
        )
        expected = {
            "isoscore_star": isoscore(tokens).value,
            "isoscore_unbiased": isoscore_unbiased(means).value,
            "mean_cosine": cosines.mean_cosine().value,
            **{f"anisotropy_raw_{k}": raw[k - 1].value for k in (1, 2, 3)},
            **{f"anisotropy_centred_{k}": centered[k - 1].value for k in (1, 2, 3)},
        }
        assert {measure: values[layer] for measure, values in measured.items()} == pytest.approx(expected, rel=1e-3)


def test_probe_leaves_training_state_unchanged():
    values = make_probe(make_rows(3)).measure()
    assert values["isoscore_unbiased"] == [None, None]
    assert all(value is not None for value in values["isoscore_star"])
    probe = make_probe(make_rows(20))
    probe.model.train()
    before = torch.get_rng_state()
    probe.measure()
    assert torch.equal(torch.get_rng_state(), before)
    assert probe.model.training
    assert torch.is_grad_enabled()


def test_probe_uses_same_few_rows_in_every_run():
    short, long = (make_probe(make_rows(1000, longest), seed=seed) for longest, seed in ((2, 0), (60, 1)))
    assert (len(short.indices), len(long.indices)) == (64, 64)
    assert len(make_probe(make_rows(20)).indices) == 20
    again = make_probe(make_rows(1000, 60), seed=2)
    assert again.indices.tolist() == long.indices.tolist()
    assert sorted(long.rows.token_counts[long.indices], reverse=True) == long.rows.token_counts[long.indices].tolist()


def test_probe_interval_is_configured_or_a_ninth_of_time():
    assert make_probe(make_rows(20), probe_every=7).steps_between_probes(1000, 1.0) == 7
    probe = make_probe(make_rows(20))
    assert probe.point_counts == {"tokens": int(probe.rows.token_counts.sum()), "texts": 20}
    assert probe.cost == int(probe.rows.token_counts.sum()) + 2 * 8
    assert probe.steps_between_probes(1200, 1e9) == 96
    assert probe.steps_between_probes(12, 1e9) == 1
    assert probe.steps_between_probes(1200, 0.5) == pytest.approx(6 * probe.cost, abs=6)


@pytest.mark.parametrize(
    ("loss", "penalty", "sentence"),
    [
        (1.0, torch.nan, "The penalty has no value at step 10. Lower the learning rate, or the size of lambda"),
        (torch.inf, 0.0, "The loss became NaN or infinite at step 10"),
    ],
)
def test_step_without_value_is_reported_at_next_row(loss, penalty, sentence):
    callback = MetricsCallback(Tally(), None, 1.0, None)
    callback.steps_per_row = callback.probe_every = 10
    callback.tally.add(torch.tensor(loss), torch.tensor(penalty))
    callback.tally.add(torch.tensor(1.0), torch.tensor(1.0))
    control = SimpleNamespace(should_training_stop=False)
    with pytest.raises(NotFiniteError, match=sentence):
        callback.on_step_end(None, SimpleNamespace(global_step=10, max_steps=100), control)
