"""Recompute the metrics of a downloaded model from its predictions, without any code of Isoscope."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from scipy.stats import pearsonr, spearmanr
from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef
from transformers import AutoModelForSequenceClassification, AutoTokenizer

ROWS_AT_ONCE = 32


def recompute(folder: Path, validation: Path, config: Mapping[str, Any]) -> dict[str, float]:
    """Return the metrics of the model in ``folder`` on all rows of a tab-separated file, by the names of the API."""
    with validation.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    labels = [row[config["label_column"]] for row in rows]
    texts = [[row[name] for row in rows] for name in config["text_columns"]]
    logits = _predict(folder, texts, config["max_length"])
    if config["task"] == "regression":
        scores, predictions = list(map(float, labels)), logits.flatten().tolist()
        return {
            "pearson": float(pearsonr(scores, predictions).statistic),
            "spearman": float(spearmanr(scores, predictions).statistic),
        }
    names = config["label_names"]
    classes = [names[number] for number in logits.argmax(dim=1).tolist()]
    average = {"average": "binary", "pos_label": names[1]} if len(names) == 2 else {"average": "macro"}
    return {
        "accuracy": float(accuracy_score(labels, classes)),
        "f1": float(f1_score(labels, classes, zero_division=0, **average)),
        "matthews": float(matthews_corrcoef(labels, classes)),
    }


def _predict(folder: Path, texts: Sequence[Sequence[str]], max_length: int) -> torch.Tensor:
    """Return the outputs of the model [rows, outputs]."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    outputs = []
    with torch.inference_mode():
        for first in range(0, len(texts[0]), ROWS_AT_ONCE):
            batch = [list(column[first : first + ROWS_AT_ONCE]) for column in texts]
            tokens = tokenizer(*batch, truncation=True, max_length=max_length, padding=True, return_tensors="pt")
            outputs.append(model(**tokens).logits)
    return torch.cat(outputs)
