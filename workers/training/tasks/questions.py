"""Questions with their texts and reference answers, cut into windows that fit a model.

Answers are read, found in the text and compared as SQuAD does: Rajpurkar et al. 2016, "SQuAD: 100,000+ Questions for
Machine Comprehension of Text", and its published script.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from string import punctuation
from typing import Any, NamedTuple

import datasets
import numpy as np
from numpy.typing import NDArray
from transformers import DataCollatorWithPadding, PreTrainedTokenizerBase

from isoscope.core.errors import InvalidError
from isoscope.core.formatting import quote
from isoscope.files.span import EXAMPLE, STARTS, TEXTS, Span, is_nested_span
from workers.training.inference import TokenizedRows

WITHOUT_PUNCTUATION = str.maketrans("", "", punctuation)
ARTICLES = re.compile(r"\b(a|an|the)\b")
# Maximum length of a question, as BERT's authors set it.
MAX_QUESTION_TOKENS = 64
# Minimum number of tokens that a window adds to the one before.
MIN_NEW_TOKENS = 8
QUESTIONS_AT_ONCE = 1000


def normalized_words(text: str) -> list[str]:
    """Return the lowercase words of a text, without ASCII punctuation and English articles."""
    return ARTICLES.sub(" ", text.lower().translate(WITHOUT_PUNCTUATION)).split()


def exact_match(answer: str, references: Iterable[str]) -> float:
    """Return 1 if the normalized answer equals a normalized reference, else 0."""
    answer_words = normalized_words(answer)
    return float(any(answer_words == normalized_words(reference) for reference in references))


def word_f1(answer: str, references: Iterable[str]) -> float:
    """Return the best F1 over references, in [0, 1]; two answers without words after normalization score 1."""
    answer_words = Counter(normalized_words(answer))
    return max(_f1(answer_words, Counter(normalized_words(reference))) for reference in references)


def _f1(answer_words: Counter[str], reference_words: Counter[str]) -> float:
    if not answer_words or not reference_words:
        return float(answer_words == reference_words)
    # The harmonic mean of precision and recall of the shared words.
    return 2 * (answer_words & reference_words).total() / (answer_words.total() + reference_words.total())


def read_answers(values: list[Any], column: str) -> list[Span]:
    """Return the answers of each row, a JSON object as in SQuAD; raise InvalidError for a row without any."""
    answers = []
    for row, value in enumerate(values, start=1):
        try:
            answers.append(_parse_answers(value))
        except ValueError as error:
            raise InvalidError(
                f"Row {row} holds no answers under {quote(column)}: {error}, as in {EXAMPLE}. Fix the file, leave the "
                "row out, or choose another column.",
                "label_column",
            ) from error
    return answers


def find_answer(answers: Span, context: str) -> tuple[int, int] | None:
    """Return the characters [begin, end) of the first answer that is found in ``context``; None if none is.

    An answer is found at its stated offset, or else where it occurs, if it occurs exactly once.
    """
    for text, stated_offset in zip(answers.texts, answers.starts, strict=True):
        begin = stated_offset
        if not context.startswith(text, stated_offset):
            begin = context.find(text)
            if begin < 0 or context.find(text, begin + 1) >= 0:
                continue
        # Tokens exclude the spaces around an answer.
        begin += len(text) - len(text.lstrip())
        return begin, begin + len(text.strip())
    return None


def _parse_answers(value: object) -> Span:
    try:
        parsed = json.loads(str(value))
    except (ValueError, RecursionError):
        parsed = None
    if not is_nested_span(parsed):
        description = "nothing" if value is None else f"{str(value)!r:.60}"
        raise ValueError(f"expected an object with {TEXTS!r} and {STARTS!r}, got {description}")
    answers = Span.parse(parsed)
    if not answers.texts:
        raise ValueError("expected at least one text")
    return answers


class Question(NamedTuple):
    """A question, its text and reference answers."""

    text: str
    context: str
    answers: Span


class Window(NamedTuple):
    """The part of a question's text that is in a row."""

    question_index: int
    """Index in ``Windows.questions``."""
    first_token: int
    """Position in the row of the first token of that part."""
    offsets: NDArray[np.int32]
    """Characters [begin, end) in the text of each token of that part, [tokens, 2]."""


@dataclass(frozen=True)
class Windows(TokenizedRows):
    """Tokenized questions with a window of their text in each row, one or several rows for each question."""

    questions: list[Question]
    windows: list[Window]
    """The window of each row."""
    n_shortened: int
    """Number of questions that were too long and were cut."""
    n_left_out: int = 0
    """Number of questions left out of training, because no answer is in their text."""

    @property
    def n_examples(self) -> int:
        return len(self.questions)


def cut_windows(questions: list[Question], tokenizer: PreTrainedTokenizerBase, max_length: int, stride: int) -> Windows:
    """Cut texts into windows of at most ``max_length`` tokens; consecutive windows share ``stride`` tokens.

    The targets are the answer's first and last token. In a window that does not hold the complete answer, both are the
    token that stands for the sequence, as in BERT's own training. Raises InvalidError if the tokenizer does not map
    tokens to characters, or the windows are too short.
    """
    if not tokenizer.is_fast:
        raise InvalidError(
            f"The model's tokenizer, a {type(tokenizer).__name__}, does not map tokens to characters, so answers "
            f"cannot be located. Choose a model with a fast tokenizer.",
            "model",
        )
    # Padding on the left would shift the target positions.
    tokenizer.padding_side = "right"
    max_question_tokens = _max_question_tokens(tokenizer, max_length, stride)
    question_texts = _shorten([question.text for question in questions], tokenizer, max_question_tokens)
    windows: list[Window] = []
    dataset_blocks: list[datasets.Dataset] = []
    for begin in range(0, len(questions), QUESTIONS_AT_ONCE):
        block = questions[begin : begin + QUESTIONS_AT_ONCE]
        encoded = tokenizer(
            question_texts[begin : begin + QUESTIONS_AT_ONCE],
            [question.context for question in block],
            truncation="only_second",
            max_length=max_length,
            stride=stride,
            return_overflowing_tokens=True,
            return_offsets_mapping=True,
        )
        spans = []
        for row, ids in enumerate(encoded["input_ids"]):
            is_context = np.array([sequence_id == 1 for sequence_id in encoded.sequence_ids(row)])
            offsets = np.array(encoded["offset_mapping"][row], dtype=np.int32)[is_context]
            question_index = begin + encoded["overflow_to_sample_mapping"][row]
            window = Window(question_index, int(is_context.argmax()), offsets)
            windows.append(window)
            no_answer = ids.index(tokenizer.cls_token_id) if tokenizer.cls_token_id in ids else 0
            spans.append(_find_answer_tokens(questions[question_index], window) or (no_answer, no_answer))
        inputs = {name: encoded[name] for name in tokenizer.model_input_names if name in encoded}
        labels = {"start_positions": [start for start, _ in spans], "end_positions": [end for _, end in spans]}
        dataset_blocks.append(datasets.Dataset.from_dict(inputs | labels))
    dataset = datasets.concatenate_datasets(dataset_blocks)
    token_counts = np.array([sum(mask) for mask in dataset["attention_mask"]], dtype=np.int64)
    n_shortened = sum(short != question.text for short, question in zip(question_texts, questions, strict=True))
    # The heads of transformers also score padding, so pad all batches to one length: the loss of a row then does not
    # depend on the rest of its batch.
    collate = DataCollatorWithPadding(tokenizer, padding="max_length", max_length=int(token_counts.max()))
    return Windows(dataset, token_counts, collate, questions, windows, n_shortened)


def _max_question_tokens(tokenizer: PreTrainedTokenizerBase, max_length: int, stride: int) -> int:
    """Return the maximum question length that leaves windows room to advance; raise InvalidError without any room."""
    reserved = int(tokenizer.num_special_tokens_to_add(pair=True)) + stride + MIN_NEW_TOKENS
    if max_length <= reserved:
        raise InvalidError(
            f"Expected windows of more than {reserved} tokens ({stride} shared, {MIN_NEW_TOKENS} new, and the "
            f"tokenizer's special ones), got {max_length}. Lower the stride, or raise the maximum length if the model "
            "takes more.",
            "stride",
        )
    return min(MAX_QUESTION_TOKENS, max_length - reserved)


def _shorten(texts: list[str], tokenizer: PreTrainedTokenizerBase, max_tokens: int) -> list[str]:
    offsets = tokenizer(texts, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
    return [
        text if len(token_offsets) <= max_tokens else text[: token_offsets[max_tokens - 1][1]]
        for text, token_offsets in zip(texts, offsets, strict=True)
    ]


def _find_answer_tokens(question: Question, window: Window) -> tuple[int, int] | None:
    """Return the positions in the row of the answer's first and last token; None unless the window has all of it."""
    span = find_answer(question.answers, question.context)
    offsets = window.offsets
    if span is None or not len(offsets):
        return None
    begin, end = span
    if begin < offsets[0, 0] or end > offsets[-1, 1]:
        return None
    first = np.searchsorted(offsets[:, 1], begin, side="right")
    last = np.searchsorted(offsets[:, 0], end, side="left") - 1
    return window.first_token + int(first), window.first_token + int(last)
