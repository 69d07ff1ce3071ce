"""Real models of two layers, sixteen dimensions and fourteen words."""

import random
from pathlib import Path
from typing import Any

import torch
import transformers
from fastapi.testclient import TestClient
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from app.context import Context
from tests.cached_rows import make_once

WORDS = ["the", "a", "film", "plot", "cast", "and", "is", "was", "very", "so", "good", "great", "bad", "dull"]
SIZE = {"vocab_size": 4 + len(WORDS), "pad_token_id": 0}


def make_tokenizer(pad_token: str | None = "[PAD]") -> transformers.PreTrainedTokenizerFast:
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    vocabulary = {word: number for number, word in enumerate(special + WORDS)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token=pad_token, unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]",
        model_max_length=64,
    )  # fmt: skip


def tiny_configs() -> list[transformers.PreTrainedConfig]:
    size = {**SIZE, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    special = {"cls_token_id": 2, "sep_token_id": 3}
    return [
        transformers.BertConfig(**size, max_position_embeddings=64),
        transformers.DistilBertConfig(**SIZE, dim=16, n_layers=2, n_heads=2, hidden_dim=32, max_position_embeddings=64),
        transformers.GPT2Config(**SIZE, n_embd=16, n_layer=2, n_head=2, n_positions=64, bos_token_id=1, eos_token_id=1),
        transformers.AlbertConfig(**size, embedding_size=8, max_position_embeddings=64),
        # Positions start after the padding id.
        transformers.RobertaConfig(**size, max_position_embeddings=65, type_vocab_size=1),
        transformers.ModernBertConfig(
            **size, **special, max_position_embeddings=64, local_attention=8, bos_token_id=2, eos_token_id=3
        ),
    ]


def save_tiny_models(folder: Path) -> None:
    torch.manual_seed(0)
    for config in tiny_configs():
        name = f"tiny-{config.model_type}"
        transformers.AutoModelForSequenceClassification.from_config(config).save_pretrained(folder / name)
        make_tokenizer(pad_token=None if config.model_type == "gpt2" else "[PAD]").save_pretrained(folder / name)


def make_table(rows: int, seed: int) -> bytes:
    draw = random.Random(seed)
    lines = ["sentence\tlabel"]
    for _ in range(rows):
        label = draw.randrange(2)
        words = draw.choices(WORDS[:10], k=draw.randint(1, 11))
        words.insert(draw.randrange(len(words) + 1), draw.choice(WORDS[10:12] if label else WORDS[12:]))
        lines.append(f"{' '.join(words)}\t{label}")
    return "\n".join(lines).encode()


def upload_once(client: TestClient, context: Context, cache: dict[str, Any], train: int, validation: int) -> str:
    def upload() -> str:
        train_file, validation_file = ("train.tsv", make_table(train, 1)), ("validation.tsv", make_table(validation, 2))
        files = {"train": train_file, "validation": validation_file}
        return client.post("/api/datasets", files=files).json()["id"]

    return make_once(context, cache, "dataset", upload)
