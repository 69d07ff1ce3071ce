"""Extractive question answering as SQuAD 1.1: the span of a text that answers a question."""

from collections.abc import Mapping
from dataclasses import replace
from math import inf, log
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import AutoModelForQuestionAnswering, PreTrainedTokenizerBase
from transformers.utils.generic import ModelOutput

from app.db.learning import empty_answer_predictor
from app.db.predictions import Predictions
from app.db.run_results import Trivial
from isoscope.core.errors import InvalidError
from isoscope.core.task import Metric
from isotropy.score import Score
from workers.training.data import Columns
from workers.training.inference import TokenizedRows
from workers.training.tasks.questions import (
    Question,
    Windows,
    cut_windows,
    exact_match,
    find_answer,
    read_answers,
    word_f1,
)
from workers.training.tasks.task import Collector, Task, read_texts

# Number of likeliest first and last tokens that are combined in each window.
N_BEST = 20
MAX_ANSWER_TOKENS = 30


class SpanTask(Task):
    """Predicts the span of a text that answers a question; long texts are read in overlapping windows."""

    purpose = "for question answering"
    auto_class = AutoModelForQuestionAnswering

    def head_options(self) -> dict[str, Any]:
        return {"num_labels": 2}

    def encode(
        self, columns: Columns, tokenizer: PreTrainedTokenizerBase, max_length: int, *, training: bool = False
    ) -> Windows:
        config = self.config
        if len(config.text_columns) != 2:
            raise InvalidError(
                f"Expected two text columns, the questions and the texts that hold the answers, got "
                f"{config.text_columns}. Choose a second one.",
                "text_columns",
            )
        question_texts, contexts = (read_texts(columns, name) for name in config.text_columns)
        answers = read_answers(columns[config.label_column], config.label_column)
        questions = [Question(*row) for row in zip(question_texts, contexts, answers, strict=True)]
        if training:
            questions = [
                question for question in questions if find_answer(question.answers, question.context) is not None
            ]
        if not questions:
            raise InvalidError(
                f"None of the {len(answers)} answers in column {config.label_column!r} is found in its text in column "
                f"{config.text_columns[1]!r}. Choose the columns again.",
                "label_column",
            )
        windows = cut_windows(questions, tokenizer, max_length, config.stride)
        return replace(windows, n_left_out=len(answers) - len(questions))

    def make_collector(self, rows: TokenizedRows, order: NDArray[np.int64]) -> Collector:
        return BestAnswers(cast("Windows", rows), order)

    def score_trivial_predictor(self, train: TokenizedRows, validation: TokenizedRows) -> Trivial:
        """Return the scores of empty answers: any other must be in the question's context, so it is not constant."""
        references = [question.answers.texts for question in cast("Windows", validation).questions]
        mean_exact_match = float(np.mean([exact_match("", answers) for answers in references]))
        mean_word_f1 = float(np.mean([word_f1("", answers) for answers in references]))
        return empty_answer_predictor(mean_exact_match, mean_word_f1)

    def untrained_loss(self, train: TokenizedRows) -> float:
        return log(float(train.token_counts.max()))  # of a uniform choice among the tokens of the longest window

    def extra_results(self, train: TokenizedRows, validation: TokenizedRows) -> dict[str, Any]:
        train_windows, validation_windows = cast("Windows", train), cast("Windows", validation)
        return {
            "n_questions": validation_windows.n_examples,
            "n_windows": len(validation_windows),
            "n_train_questions": train_windows.n_examples,
            "n_train_windows": len(train_windows),
            "n_train_left_out": train_windows.n_left_out,
            "n_questions_cut": train_windows.n_shortened + validation_windows.n_shortened,
        }


class BestAnswers:
    """The likeliest answer to each question, from all its windows."""

    def __init__(self, rows: Windows, order: NDArray[np.int64]) -> None:
        self._questions = rows.questions
        self._windows = [rows.windows[row] for row in order]
        self._rows_added = 0
        # By question index.
        self._best_scores: dict[int, float] = {}
        self._best_answers: dict[int, str] = {}

    def add(self, outputs: ModelOutput, batch: Mapping[str, Tensor]) -> None:
        n_rows, n_tokens = batch["input_ids"].shape
        windows = self._windows[self._rows_added : self._rows_added + n_rows]
        self._rows_added += n_rows
        is_candidate = torch.zeros(n_rows, n_tokens, dtype=torch.bool)
        for row, window in enumerate(windows):
            # A token may cover no characters, such as RoBERTa's token for a space.
            nonempty_positions = np.flatnonzero(window.offsets[:, 1] > window.offsets[:, 0])
            is_candidate[row, torch.from_numpy(window.first_token + nonempty_positions)] = True
        spans = best_spans(outputs["start_logits"], outputs["end_logits"], is_candidate)
        for window, score, first, last in zip(windows, *(column.tolist() for column in spans), strict=True):
            index = window.question_index
            if score > self._best_scores.get(index, -inf):
                begin, end = window.offsets[first - window.first_token, 0], window.offsets[last - window.first_token, 1]
                self._best_scores[index] = score
                self._best_answers[index] = self._questions[index].context[begin:end]

    def metrics(self) -> dict[str, Score]:
        _, _, exact_matches, word_f1s = self._score_questions()
        return {
            Metric.WORD_F1.value: Score(sum(word_f1s) / len(word_f1s)),
            Metric.EXACT_MATCH.value: Score(sum(exact_matches) / len(exact_matches)),
        }

    def sorted_predictions(self, split_positions: NDArray[np.int64]) -> Predictions:
        indices, texts, exact_matches, word_f1s = self._score_questions()
        return Predictions(split_positions[indices], None, tuple(texts), np.array(exact_matches), np.array(word_f1s))

    def _score_questions(self) -> tuple[list[int], list[str], list[float], list[float]]:
        """Return indices, predicted answers, exact matches and word F1s of all questions that have a window."""
        question_indices = sorted({window.question_index for window in self._windows})
        predicted_answers = [self._best_answers.get(index, "") for index in question_indices]
        references = [self._questions[index].answers.texts for index in question_indices]
        pairs = list(zip(predicted_answers, references, strict=True))
        exact_matches = [exact_match(*pair) for pair in pairs]
        word_f1s = [word_f1(*pair) for pair in pairs]
        return question_indices, predicted_answers, exact_matches, word_f1s


def best_spans(start_logits: Tensor, end_logits: Tensor, is_candidate: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return each row's best sum of start and end logits, and their positions, as tensors [rows] on the CPU.

    Logits are [rows, tokens]; ``is_candidate`` has the same shape and is true where an answer may start or end. The
    sum is minus infinity if the ``N_BEST`` likeliest starts and ends make no span of 1 to ``MAX_ANSWER_TOKENS`` tokens.
    """
    n_best = min(N_BEST, is_candidate.shape[1])
    logits = (logit.float().cpu().masked_fill(~is_candidate, -inf) for logit in (start_logits, end_logits))
    starts, ends = (logit.topk(n_best) for logit in logits)
    length = ends.indices[:, None, :] - starts.indices[:, :, None] + 1
    sums = starts.values[:, :, None] + ends.values[:, None, :]
    is_valid = (length >= 1) & (length <= MAX_ANSWER_TOKENS)
    score, pair_index = sums.masked_fill(~is_valid, -inf).flatten(1).max(dim=1)
    start = starts.indices.gather(1, pair_index[:, None] // n_best)[:, 0]
    end = ends.indices.gather(1, pair_index[:, None] % n_best)[:, 0]
    return score, start, end
