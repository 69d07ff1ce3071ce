import datasets
import numpy as np
import pytest
import torch
from sklearn.metrics import f1_score
from transformers import BertConfig, BertForSequenceClassification

from app.db.config import RunConfig
from app.errors import InvalidError
from isotropy.isoscore import isoscore, isoscore_from_covariance
from isotropy.spectrum import shrink
from workers.finetune.evaluation import evaluate, observe
from workers.finetune.rows import Rows
from workers.finetune.tasks.classification import Classification


class Progress:
    def enter(self, phase, total):
        pass

    def advance(self, done):
        pass


def make_rows(n, n_labels=2, *, left=False):
    draw = np.random.default_rng(n)
    texts = [draw.integers(4, 50, size=length).tolist() for length in draw.integers(2, 10, size=n)]
    columns = {"input_ids": texts, "labels": draw.integers(0, n_labels, size=n).tolist()}

    def collate(rows):
        longest = max(len(row["input_ids"]) for row in rows)
        padded = [[0] * (longest - len(row["input_ids"])) for row in rows]
        ids = torch.tensor(
            [p + row["input_ids"] if left else row["input_ids"] + p for row, p in zip(rows, padded, strict=True)]
        )
        labels = torch.tensor([row["labels"] for row in rows])
        return {"input_ids": ids, "attention_mask": (ids != 0).long(), "labels": labels}

    return Rows(datasets.Dataset.from_dict(columns), np.array([len(text) for text in texts]), collate)


def make_task(n_labels=2, **changes):
    values = {"model": "m", "text_columns": ["t"], "label_column": "l", "seed": 0, "regularizer": "none", "lam": 0}
    config = RunConfig.model_validate({**values, "label_names": [str(i) for i in range(n_labels)], **changes})
    return Classification(config)


def make_model(n_labels=2):
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=50,
        hidden_size=8,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=16,
        pad_token_id=0,
        num_labels=n_labels,
    )
    return BertForSequenceClassification(config).eval()


def clouds(model, rows):
    """Tokens [n, 8] and first tokens of each layer, text by text and so without padding; and the logits."""
    tokens, first, logits = ([], []), ([], []), []
    for row in rows.dataset:
        with torch.no_grad():
            outputs = model(torch.tensor([row["input_ids"]]), output_hidden_states=True)
        logits.append(outputs.logits[0])
        for layer, states in enumerate(outputs.hidden_states[1:]):
            tokens[layer].append(states[0])
            first[layer].append(states[0, :1])
    return [torch.cat(layer) for layer in tokens], [torch.cat(layer) for layer in first], torch.stack(logits)


def test_all_validation_rows_are_scored_without_their_padding():
    model, rows = make_model(), make_rows(60)
    found = evaluate(model, make_rows(10), rows, make_task(), Progress())
    tokens, first, logits = clouds(model, rows)
    labels = torch.tensor(rows.dataset["labels"])

    assert found.isoscore_star.value == pytest.approx(isoscore(torch.cat(tokens)).value, rel=1e-4)
    assert found.results["layers"] == pytest.approx([isoscore(layer).value for layer in tokens], rel=1e-4)
    reference = [
        isoscore_from_covariance(shrink(few.T.cov(), many.T.cov(), 0.75)).value
        for few, many in zip(first, tokens, strict=True)
    ]
    assert found.results["layer_reasons"] == [None, None]
    assert found.results["reference"] == {
        "zeta": 0.75,
        "layers": pytest.approx(reference, rel=1e-4),
        "layer_reasons": [None, None],
    }
    assert (found.results["tokens"], found.results["points"]) == (rows.tokens.sum(), 2 * rows.tokens.sum())
    assert found.results["loss"] == pytest.approx(float(torch.nn.functional.cross_entropy(logits, labels)), rel=1e-5)
    assert found.performance == float((logits.argmax(1) == labels).double().mean())


def test_shrinkage_goes_towards_training_tokens():
    model, train = make_model(), make_rows(30)
    found = evaluate(model, train, make_rows(60), make_task(evaluation_zeta=1), Progress())
    tokens, _, _ = clouds(model, train)
    assert found.isoscore_star.value == pytest.approx(isoscore(torch.cat(tokens)).value, rel=1e-4)
    assert found.results["layers"] == pytest.approx([isoscore(layer).value for layer in tokens], rel=1e-4)


@pytest.mark.parametrize(("n_labels", "average"), [(2, "binary"), (3, "macro")])
def test_the_metric_asked_for_is_the_performance(n_labels, average):
    model, rows = make_model(n_labels), make_rows(60, n_labels)
    found = evaluate(model, make_rows(10), rows, make_task(n_labels, metric="f1"), Progress())
    predictions = clouds(model, rows)[2].argmax(1).tolist()
    assert found.performance == f1_score(rows.dataset["labels"], predictions, average=average, zero_division=0)
    assert found.results["f1_average"] == average


def test_the_first_token_is_found_behind_padding_on_the_left():
    model = make_model()
    right, left = (
        evaluate(model, rows, rows, make_task(), Progress()).results["reference"]["layers"]
        for rows in (make_rows(1), make_rows(1, left=True))
    )
    assert right == left


def test_a_loss_that_is_not_a_number_is_refused():
    model = make_model()
    torch.nn.init.constant_(model.classifier.weight, float("nan"))
    with pytest.raises(InvalidError, match="loss is not a number on the rows it was evaluated on"):
        observe(model, make_rows(5), np.arange(5), make_task(), Progress())
