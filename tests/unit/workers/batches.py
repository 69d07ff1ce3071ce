"""Configurations of runs, and random token ids of two classes in batches like those of a DataLoader."""

import torch

from app.db.config import RunConfig


def make_config(**changes):
    values = {"model": "m", "text_columns": ["t"], "label_column": "l", "label_names": ["a", "b"], "seed": 0}
    return RunConfig.model_validate(values | {"regularizer": "none", "lam": 0} | changes)


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
    return {name: torch.nn.functional.pad(x, (0, by)) if x.ndim == 2 else x for name, x in batch.items()}
