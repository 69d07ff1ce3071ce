"""Metrics of a trained model that was downloaded, from its own predictions: none of Isoscope's code takes part."""

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
    logits = _logits(folder, texts, config["max_length"])
    if config["task"] == "regression":
        right, given = list(map(float, labels)), logits.flatten().tolist()
        return {
            "pearson": float(pearsonr(right, given).statistic),
            "spearman": float(spearmanr(right, given).statistic),
        }
    names = config["label_names"]
    chosen = [names[number] for number in logits.argmax(dim=1).tolist()]
    average = {"average": "binary", "pos_label": names[1]} if len(names) == 2 else {"average": "macro"}
    return {
        "accuracy": float(accuracy_score(labels, chosen)),
        "f1": float(f1_score(labels, chosen, zero_division=0, **average)),
        "matthews": float(matthews_corrcoef(labels, chosen)),
    }


def _logits(folder: Path, texts: Sequence[Sequence[str]], max_length: int) -> torch.Tensor:
    """Return what the model gives for each row, [rows, outputs]."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    outputs = []
    with torch.inference_mode():
        for first in range(0, len(texts[0]), ROWS_AT_ONCE):
            batch = [list(column[first : first + ROWS_AT_ONCE]) for column in texts]
            tokens = tokenizer(*batch, truncation=True, max_length=max_length, padding=True, return_tensors="pt")
            outputs.append(model(**tokens).logits)
    return torch.cat(outputs)
