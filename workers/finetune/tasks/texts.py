"""Texts of a file, and rows of them as a model with one output for a whole text takes them."""

from collections.abc import Sequence

import datasets
import numpy as np
from transformers import DataCollatorWithPadding, PreTrainedTokenizerBase

from isoscope.core.errors import InvalidError
from workers.finetune.columns import Columns
from workers.finetune.rows import Rows


def texts_of(columns: Columns, name: str) -> list[str]:
    """Return a column of texts.

    Raises:
        InvalidError: a row has none.

    """
    values = columns[name]
    if None in values:
        raise InvalidError(
            f"Row {values.index(None) + 1} has no text in column {name!r}: fill it in or leave the row out.",
            "text_columns",
        )
    return [str(value) for value in values]


def text_rows(
    columns: Columns,
    names: Sequence[str],
    labels: Sequence[int] | Sequence[float],
    tokenizer: PreTrainedTokenizerBase,
    max_length: int,
) -> Rows:
    """Return texts or pairs of texts, cut behind ``max_length`` tokens, with what is to be predicted of each."""
    encoded = dict(tokenizer(*(texts_of(columns, name) for name in names), truncation=True, max_length=max_length))
    tokens = np.array([sum(mask) for mask in encoded["attention_mask"]], dtype=np.int64)
    return Rows(datasets.Dataset.from_dict(encoded | {"labels": labels}), tokens, DataCollatorWithPadding(tokenizer))
