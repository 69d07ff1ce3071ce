from types import SimpleNamespace

import datasets
import numpy as np
import pytest
import torch
from sklearn.metrics import f1_score
from transformers import BertConfig, BertForSequenceClassification, GPT2Config, GPT2ForSequenceClassification

from isoscope.core.errors import InvalidError
from isotropy.anisotropy import anisotropy
from isotropy.clusters import silhouette
from isotropy.cosine import CosineMoments
from isotropy.intrinsic import twonn
from isotropy.isoscore import isoscore, isoscore_from_covariance
from isotropy.neighbors import nearest_neighbors
from isotropy.score import Score
from isotropy.spectrum import eigenvalues, shrink
from isotropy.topology import barcode, persistent_entropy
from isotropy.unbiased import isoscore_unbiased
from tests.points import moments_of
from tests.unit.workers.batches import make_config
from workers.failure import NotFiniteError
from workers.training import sentences
from workers.training.evaluation import evaluate, observe
from workers.training.inference import TokenizedRows
from workers.training.metrics import MetricsCallback, Probe, Tally
from workers.training.tasks.classification import Classification


class Progress:
    def enter(self, phase, total):
        pass

    def advance(self, done):
        pass


def make_rows(n, n_labels=2, *, longest=9, pad_left=False):
    draw = np.random.default_rng(n)
    texts = [draw.integers(4, 50, size=length).tolist() for length in draw.integers(2, longest + 1, size=n)]
    columns = {"input_ids": texts, "labels": draw.integers(0, n_labels, size=n).tolist()}

    def collate(rows):
        length = max(len(row["input_ids"]) for row in rows)
        padded = [[0] * (length - len(row["input_ids"])) for row in rows]
        ids = torch.tensor(
            [p + row["input_ids"] if pad_left else row["input_ids"] + p for row, p in zip(rows, padded, strict=True)]
        )
        labels = torch.tensor([row["labels"] for row in rows])
        return {"input_ids": ids, "attention_mask": (ids != 0).long(), "labels": labels}

    return TokenizedRows(datasets.Dataset.from_dict(columns), np.array([len(text) for text in texts]), collate)


def make_task(n_labels=2, **changes):
    return Classification(make_config(label_names=[str(i) for i in range(n_labels)], **changes))


def make_model(n_labels=2):
    torch.manual_seed(0)
    sizes = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
    config = BertConfig(vocab_size=50, pad_token_id=0, num_labels=n_labels, **sizes)
    return BertForSequenceClassification(config).eval()


def layers_of(model, rows):
    """Return the tokens [n, 8] of each text by layer, computed one text at a time without padding."""
    with torch.no_grad():
        texts = [model(torch.tensor([ids]), output_hidden_states=True) for ids in rows.dataset["input_ids"]]
    return [[states[0] for states in layer] for layer in zip(*(text.hidden_states[1:] for text in texts), strict=True)]


def clouds(model, rows):
    """Return the tokens [n, 8] and first tokens of each layer, and the logits."""
    layers = layers_of(model, rows)
    with torch.no_grad():
        logits = [model(torch.tensor([ids])).logits[0] for ids in rows.dataset["input_ids"]]
    first = [torch.stack([text[0] for text in layer]) for layer in layers]
    return [torch.cat(layer) for layer in layers], first, torch.stack(logits)


def by_hand(x):
    """Compute the measures of moments from the points."""
    raw = anisotropy(eigenvalues(x.T.double() @ x.double()), 3)
    centered = anisotropy(eigenvalues(x.T.double().cov()), 3)
    return {
        "isoscore_star": isoscore(x).value,
        "mean_cosine": moments_of(x, CosineMoments).mean_cosine().value,
        **{f"anisotropy_raw_{k}": raw[k - 1].value for k in (1, 2, 3)},
        **{f"anisotropy_centred_{k}": centered[k - 1].value for k in (1, 2, 3)},
    }


def pairs_by_hand(x, labels):
    """Compute the measures of pairs from the points."""
    return {
        "twonn": twonn(nearest_neighbors(x, 2)).dimension.value,
        "persistent_entropy": persistent_entropy(barcode(x)).value,
        "silhouette": silhouette(x, labels).value,
    }


@pytest.mark.slow
def test_evaluation_measures_layers_and_sentences_without_padding():
    model, rows = make_model(), make_rows(60)
    result = evaluate(model, make_rows(10), rows, make_task(), Progress())
    tokens, first, logits = clouds(model, rows)
    labels = torch.tensor(rows.dataset["labels"])

    assert result.isoscore_star.value == pytest.approx(isoscore(torch.cat(tokens)).value, rel=1e-4)
    stars = result.results.dump()["by_layer"]["isoscore_star"]
    assert stars["values"] == pytest.approx([isoscore(layer).value for layer in tokens], rel=1e-4)
    assert "layers" not in result.results.dump()
    reference = [
        isoscore_from_covariance(shrink(first_layer.T.cov(), token_layer.T.cov(), 0.75)).value
        for first_layer, token_layer in zip(first, tokens, strict=True)
    ]
    assert stars["reasons"] == [None, None]
    shrunk = {"layers": pytest.approx(reference, rel=1e-4), "layer_reasons": [None, None]}
    assert result.results.dump()["reference"] == {"zeta": 0.75, "pooling": "first", "n": 60, **shrunk}
    assert (result.results.tokens, result.results.points) == (rows.token_counts.sum(), 2 * rows.token_counts.sum())
    assert result.results.loss == pytest.approx(float(torch.nn.functional.cross_entropy(logits, labels)), rel=1e-5)
    assert result.performance.value == float((logits.argmax(1) == labels).double().mean())
    last = first[-1]
    expected = by_hand(last) | {"isoscore_unbiased": isoscore_unbiased(last).value} | pairs_by_hand(last, labels)

    sentence = result.results.dump()["sentences"]
    assert sentence["pooling"] == "first"
    assert {m: entry["value"] for m, entry in sentence["last_layer"].items()} == pytest.approx(expected, rel=1e-3)
    assert {(entry["n"], entry["reason"]) for entry in sentence["last_layer"].values()} == {(60, None)}
    assert result.figures == {
        "activation": {
            "n": 60,
            "mean": pytest.approx(last.mean(0).tolist(), rel=1e-4, abs=1e-6),
            "std": pytest.approx(last.std(0).tolist(), rel=1e-4),
        }
    }
    expected = []
    for texts in layers_of(model, rows):
        means = torch.stack([text.mean(0) for text in texts])
        firsts = torch.stack([text[0] for text in texts])
        unbiased = {"isoscore_unbiased": isoscore_unbiased(means).value}
        expected.append(by_hand(torch.cat(texts)) | unbiased | pairs_by_hand(firsts, labels))

    results = result.results.dump()
    assert results["by_layer"].keys() == expected[0].keys()
    for measure, values in results["by_layer"].items():
        assert values["values"] == pytest.approx([layer[measure] for layer in expected], rel=1e-3), measure
        assert values["reasons"] == [None, None]
    text_measures = ("isoscore_unbiased", "twonn", "persistent_entropy", "silhouette")
    tokens = {measure: int(rows.token_counts.sum()) for measure in expected[0]}
    assert results["by_layer_n"] == tokens | dict.fromkeys(text_measures, 60)


def test_shrinkage_target_is_training_tokens():
    model, train = make_model(), make_rows(30)
    result = evaluate(model, train, make_rows(60), make_task(evaluation_zeta=1), Progress())
    tokens, _, _ = clouds(model, train)
    assert result.isoscore_star.value == pytest.approx(isoscore(torch.cat(tokens)).value, rel=1e-4)
    by_layer = result.results.dump()["by_layer"]["isoscore_star"]["values"]
    assert by_layer == pytest.approx([isoscore(layer).value for layer in tokens], rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(("n_labels", "average"), [(2, "binary"), (3, "macro")])
def test_performance_is_configured_metric(n_labels, average):
    model, rows = make_model(n_labels), make_rows(60, n_labels)
    result = evaluate(model, make_rows(10), rows, make_task(n_labels, metric="f1"), Progress())
    predictions = clouds(model, rows)[2].argmax(1).tolist()
    assert result.performance.value == f1_score(rows.dataset["labels"], predictions, average=average, zero_division=0)
    assert result.results.f1_average == average
    assert result.results.f1_positive == ("1" if average == "binary" else None)


def test_left_padding_is_skipped_and_nan_loss_refused():
    model = make_model()
    right, left = (
        evaluate(model, rows, rows, make_task(), Progress()).results.dump()["reference"]["layers"]
        for rows in (make_rows(1), make_rows(1, pad_left=True))
    )
    assert right == left
    torch.nn.init.constant_(model.classifier.weight, float("nan"))
    with pytest.raises(InvalidError, match="loss is not a number on the rows it was evaluated on"):
        observe(model, make_rows(5), np.arange(5), make_task(), Progress())


def test_causal_model_is_measured_by_last_tokens():
    torch.manual_seed(0)
    sizes = {"n_embd": 8, "n_layer": 2, "n_head": 2, "n_positions": 16}
    model = GPT2ForSequenceClassification(GPT2Config(vocab_size=50, pad_token_id=0, num_labels=2, **sizes)).eval()
    rows = make_rows(60)
    results = evaluate(model, rows, rows, make_task(), Progress()).results.dump()
    layers = layers_of(model, rows)
    last = torch.stack([text[-1] for text in layers[-1]])
    # The reference uses the last token too, because the first sees nothing of its text.
    reference = [
        isoscore_from_covariance(shrink(torch.stack([t[-1] for t in texts]).T.cov(), torch.cat(texts).T.cov(), 0.75))
        for texts in layers
    ]
    assert results["reference"]["layers"] == pytest.approx([score.value for score in reference], rel=1e-3)
    assert (results["reference"]["pooling"], results["reference"]["n"]) == ("last", 60)
    assert results["sentences"]["pooling"] == "last"
    assert results["sentences"]["last_layer"]["isoscore_star"]["value"] == pytest.approx(isoscore(last).value, rel=1e-3)
    expected = pairs_by_hand(last, torch.tensor(rows.dataset["labels"]))
    assert {m: results["by_layer"][m]["values"][-1] for m in expected} == pytest.approx(expected, rel=1e-3)


@pytest.mark.slow
def test_pairs_use_same_sample_in_every_run(monkeypatch):
    monkeypatch.setattr(sentences, "PAIR_ROWS", 25)
    model, rows = make_model(), make_rows(60)
    evaluations = (evaluate(model, rows, rows, make_task(batch_size=size), Progress()) for size in (3, 16))
    first, again = (evaluation.results.dump() for evaluation in evaluations)
    drawn = np.random.default_rng(0).permutation(60)[:25]
    expected = pairs_by_hand(clouds(model, rows)[1][-1][drawn], torch.tensor(rows.dataset["labels"])[drawn])
    for results in (first, again):
        assert {m: results["by_layer"][m]["values"][-1] for m in expected} == pytest.approx(expected, rel=1e-3)
        assert {m: results["by_layer_n"][m] for m in expected} == dict.fromkeys(expected, 25)
        assert results["sentences"]["last_layer"]["mean_cosine"]["n"] == 60


def test_repeated_texts_do_not_count_for_twonn():
    model, rows = make_model(), make_rows(40)
    repeated = datasets.concatenate_datasets([rows.dataset] * 2)
    twice = TokenizedRows(repeated, np.tile(rows.token_counts, 2), rows.collate)
    once, doubled = (evaluate(model, rows, r, make_task(), Progress()).results.dump() for r in (rows, twice))
    assert doubled["by_layer"]["twonn"]["values"] == pytest.approx(once["by_layer"]["twonn"]["values"], rel=1e-3)
    assert (doubled["by_layer_n"]["twonn"], doubled["by_layer_n"]["persistent_entropy"]) == (40, 80)


def test_undefined_layer_value_states_reason():
    model = make_model()
    result = evaluate(model, make_rows(3), make_rows(1), make_task(), Progress())
    by_layer = result.results.dump()["by_layer"]
    reasons = ["The silhouette needs at least 2 classes; there is 1."] * 2
    assert by_layer["silhouette"] == {"values": [None, None], "reasons": reasons}
    reasons = ["The bias-corrected IsoScore needs at least 4 points; there is 1."] * 2
    assert by_layer["isoscore_unbiased"]["reasons"] == reasons
    assert by_layer["isoscore_star"]["reasons"] == [None, None]
    assert result.results.dump()["sentences"]["last_layer"]["mean_cosine"]["reason"].endswith("there is 1.")
    assert result.figures == {}


def test_undefined_metric_states_reason():
    class Silent(Classification):
        def make_collector(self, rows, order):
            return Undefined()

    class Undefined:
        def add(self, outputs, batch):
            pass

        def metrics(self):
            return {"accuracy": Score.undefined("There is no answer."), "f1": Score(0.5)}

        def sorted_predictions(self, split_positions):
            raise ValueError("expected 1 to 1,000,000 rows, got 2,000,000")

    result = evaluate(make_model(), make_rows(5), make_rows(5), Silent(make_task().config), Progress())
    assert (result.performance.value, result.performance.reason) == (None, "There is no answer.")
    assert result.results.metrics == {"accuracy": None, "f1": 0.5}
    assert result.results.metric_reasons == {"accuracy": "There is no answer."}
    assert (result.predictions, result.results.constant_prediction) == (None, None)
    assert result.notes == ["Predictions are not stored: expected 1 to 1,000,000 rows, got 2,000,000."]


def make_probe(rows, **changes):
    return Probe(make_model(), rows, make_task(**changes).config)


def test_probe_matches_isotropy_for_every_layer():
    probe = make_probe(make_rows(40), batch_size=1)
    measured = probe.measure()
    probe.model.eval()
    with torch.no_grad():
        inputs = [torch.tensor([probe.rows.dataset[int(i)]["input_ids"]]) for i in probe.indices]
        texts = [probe.model(ids, output_hidden_states=True) for ids in inputs]
    for layer in (0, 1):
        states = [text.hidden_states[layer + 1][0] for text in texts]
        tokens, means = torch.cat(states), torch.stack([text.mean(0) for text in states])
        expected = by_hand(tokens) | {"isoscore_unbiased": isoscore_unbiased(means).value}
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
    short, long = (make_probe(make_rows(1000, longest=longest), seed=seed) for longest, seed in ((2, 0), (60, 1)))
    assert (len(short.indices), len(long.indices)) == (64, 64)
    assert len(make_probe(make_rows(20)).indices) == 20
    again = make_probe(make_rows(1000, longest=60), seed=2)
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
    callback.log_every = callback.probe_every = 10
    callback.tally.add(torch.tensor(loss), torch.tensor(penalty))
    callback.tally.add(torch.tensor(1.0), torch.tensor(1.0))
    control = SimpleNamespace(should_training_stop=False)
    with pytest.raises(NotFiniteError, match=sentence):
        callback.on_step_end(None, SimpleNamespace(global_step=10, max_steps=100), control)
