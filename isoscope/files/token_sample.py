"""Tokenize a sample of the rows of a file, to show tokens and lengths."""

from itertools import islice
from math import ceil
from pathlib import Path
from typing import NamedTuple

from isoscope.files.columns import open_table
from isoscope.files.strict import Frozen
from isoscope.files.text import Quoting
from isoscope.files.upload_formats import Role

SHOWN_ROWS = 8
SHOWN_TOKENS = 200
SAMPLE_ROWS = 2000
# A file may be sorted by length, so the sample is spread over this many rows.
SCANNED_ROWS = 20_000


class SampledToken(Frozen):
    """The text of a token, and whether the tokenizer added it."""

    text: str
    special: bool


class TokenizedRow(Frozen):
    """The first tokens of a row, with its label."""

    label: str | None
    tokens: list[SampledToken]


class TokenLengths(NamedTuple):
    """Numbers of tokens of a row: of its first text alone, and in total."""

    first: int
    total: int


class TokenSample(NamedTuple):
    """Tokenized rows of a data set before truncation, and the lengths of more rows."""

    rows: list[TokenizedRow]
    lengths: list[TokenLengths]


def sample_tokens(
    tokenizer_file: Path, path: Path, filename: str, texts: list[str], label: str, quoting: Quoting | None
) -> TokenSample:
    """Tokenize a sample of the rows of a file; rows without text are left out."""
    from tokenizers import Tokenizer  # noqa: PLC0415 - only the dashboard and its workers have it

    tokenizer = Tokenizer.from_file(str(tokenizer_file))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    table = open_table(path, filename, Role.ROWS, quoting)
    scanned = list(islice(table.rows([*texts, label]), SCANNED_ROWS))
    step = max(1, ceil(len(scanned) / SAMPLE_ROWS))
    sample = TokenSample([], [])
    for row in scanned[::step]:
        *values, label_value = row
        if None in values:
            continue
        first_text, second_text = str(values[0]), str(values[1]) if len(values) > 1 else None
        encoding = tokenizer.encode(first_text, second_text)
        first_length = len(encoding.ids) if second_text is None else len(tokenizer.encode(first_text).ids)
        sample.lengths.append(TokenLengths(first_length, len(encoding.ids)))
        if len(sample.rows) < SHOWN_ROWS:
            ids_and_flags = zip(encoding.ids[:SHOWN_TOKENS], encoding.special_tokens_mask, strict=False)
            tokens = [
                SampledToken(text=tokenizer.decode([token_id], skip_special_tokens=False), special=bool(is_special))
                for token_id, is_special in ids_and_flags
            ]
            sample.rows.append(TokenizedRow(label=None if label_value is None else str(label_value), tokens=tokens))
    return sample
