import math

import numpy as np
import pytest
import torch
from torchmetrics.functional.text import squad
from transformers.modeling_outputs import QuestionAnsweringModelOutput

from isoscope.files.span import Span as Answers
from tests.tiny import make_tokenizer
from workers.training.tasks.questions import Question, cut_windows
from workers.training.tasks.span import ANSWER_TOKENS, N_BEST, BestAnswers, best_spans

CONTEXT = "the film was very good and the plot was so dull and the cast is great"


def by_hand(starts, ends, inside):
    """Return the best span of one row from all pairs of its likeliest starts and ends."""
    positions = [i for i in range(len(inside)) if inside[i]]
    likely = [sorted(positions, key=lambda i: -float(logits[i]))[:N_BEST] for logits in (starts, ends)]
    spans = [(float(starts[s] + ends[e]), s, e) for s in likely[0] for e in likely[1] if 0 <= e - s < ANSWER_TOKENS]
    return max(spans, default=(-math.inf, None, None))


def test_best_span_matches_all_pairs():
    draw = torch.Generator().manual_seed(0)
    starts, ends = torch.randn(2, 40, 70, generator=draw)
    inside = torch.rand(40, 70, generator=draw) < 0.9
    score, start, end = best_spans(starts, ends, inside)
    for row in range(40):
        expected = by_hand(starts[row], ends[row], inside[row])
        assert (float(score[row]), int(start[row]), int(end[row])) == pytest.approx(expected)


def test_answer_has_at_most_thirty_tokens():
    starts, ends = torch.zeros(2, 1, 60)
    starts[0, 5], ends[0, 35], ends[0, 34] = 9, 9, 1
    score, start, end = best_spans(starts, ends, torch.ones(1, 60, dtype=torch.bool))
    assert (float(score), int(start), int(end)) == (10, 5, 34)
    score, _, _ = best_spans(*torch.zeros(2, 1, 9), torch.zeros(1, 9, dtype=torch.bool))
    assert float(score) == -math.inf


def make_rows():
    cases = [("the plot was", "so dull", ["dull"]), ("a cast", "great", ["bad", "great"]), ("a film", "film", ["good"])]
    questions = [Question(text, CONTEXT, Answers(references, [0] * len(references))) for text, _, references in cases]
    return cut_windows(questions, make_tokenizer(), 18, 5), [answer for _, answer, _ in cases]


def gather(rows, answer_texts, order, size):
    """Return metrics of a model that finds the answers but scores spans in the question higher."""
    predictions = BestAnswers(rows, order)
    for begin in range(0, len(order), size):
        rows_of_batch = order[begin : begin + size]
        batch = rows.collate([rows.dataset[int(row)] for row in rows_of_batch])
        starts, ends = torch.zeros(2, *batch["input_ids"].shape)
        for i, row in enumerate(rows_of_batch):
            window = rows.windows[row]
            answer = CONTEXT.index(answer_texts[window.question])
            starts[i, 1], ends[i, 2] = 50, 50
            for token, (first, stop) in enumerate(window.offsets, start=window.first_token):
                starts[i, token] += 5.0 * (first == answer)
                ends[i, token] += 5.0 * (stop == answer + len(answer_texts[window.question]))
        predictions.add(QuestionAnsweringModelOutput(start_logits=starts, end_logits=ends), batch)
    return {name: score.value for name, score in predictions.metrics().items()}


def test_merged_windows_score_as_torchmetrics():
    rows, answer_texts = make_rows()
    assert len(rows) == 6
    answers = gather(rows, answer_texts, np.arange(6), 4)
    references = [question.answers.texts for question in rows.questions]
    expected = squad(
        [{"prediction_text": text, "id": str(i)} for i, text in enumerate(answer_texts)],
        [
            {"answers": {"text": texts, "answer_start": [0] * len(texts)}, "id": str(i)}
            for i, texts in enumerate(references)
        ],
    )
    assert answers == pytest.approx(
        {"word_f1": float(expected["f1"]) / 100, "exact_match": float(expected["exact_match"]) / 100}
    )
    assert answers == pytest.approx({"word_f1": (2 / 3 + 1) / 3, "exact_match": 1 / 3})
    assert gather(rows, answer_texts, np.array([5, 3, 1, 0, 2, 4]), 1) == answers
    assert gather(rows, answer_texts, np.array([2, 3]), 2) == {"word_f1": 1, "exact_match": 1}
    question = Question("the film", "", Answers(["film"], [0]))
    rows = cut_windows([question], make_tokenizer(), 18, 5)
    predictions = BestAnswers(rows, np.arange(1))
    batch = rows.collate([rows.dataset[0]])
    zeros = torch.zeros(batch["input_ids"].shape)
    predictions.add(QuestionAnsweringModelOutput(start_logits=zeros, end_logits=zeros), batch)
    assert {name: score.value for name, score in predictions.metrics().items()} == {"word_f1": 0, "exact_match": 0}
