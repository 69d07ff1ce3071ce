import json
import math
import random

import numpy as np
import pytest
import torch
from tokenizers import ByteLevelBPETokenizer
from torchmetrics.functional.text import squad
from transformers import CanineTokenizer, PreTrainedTokenizerFast
from transformers.modeling_outputs import QuestionAnsweringModelOutput

from app.db.config import RunConfig
from isoscope.core.errors import InvalidError
from isoscope.files.span import Span
from tests.tiny import make_tokenizer
from workers.training.tasks import questions
from workers.training.tasks.questions import Question, cut_windows, exact_match, find_answer, read_answers, word_f1
from workers.training.tasks.span import MAX_ANSWER_TOKENS, N_BEST, BestAnswers, SpanTask, best_spans


def test_squad_answers_are_read_and_first_found_counts():
    rows = [{"text": ["a film", "film"], "answer_start": [4, 6]}, {"text": ["7"], "answer_start": [0], "id": "x"}]
    answers = read_answers([json.dumps(row) for row in rows], "answers")
    assert answers == [Span(["a film", "film"], [4, 6]), Span(["7"], [0])]
    assert find_answer(Span(["cast", "film", "bad"], [0, 6, 2]), "a bad film") == (6, 10)


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (None, "expected an object with 'text' and 'answer_start', got nothing"),
        ("the film", "got 'the film'"),
        (7, "got '7'"),
        ('{"text": ["film"]}', "expected an object with 'text' and 'answer_start', got "),
        ("[" * 10**5, "expected an object with 'text' and 'answer_start', got '[[["),
        ('{"text": "film", "answer_start": 3}', "expected a list of texts and a list of as many positions"),
        ('{"text": ["film"], "answer_start": [1, 2]}', "expected a list of texts and a list of as many positions"),
        ('{"text": ["film"], "answer_start": ["3"]}', "expected positions counted from 0, got '3'"),
        ('{"text": ["film", " "], "answer_start": [1, 2]}', "expected texts that are not empty, got ' '"),
        ('{"text": [], "answer_start": []}', "expected at least one text"),
    ],
)
def test_invalid_answer_is_refused_by_row(value, sentence):
    good = '{"text": ["film"], "answer_start": [4]}'
    with pytest.raises(InvalidError) as caught:
        read_answers([good, value], "answers")
    assert str(caught.value).startswith("Row 2 holds no answers under ")
    assert sentence in str(caught.value)
    assert str(caught.value).endswith("Fix the file, leave the row out, or choose another column.")
    assert (len(str(caught.value)) < 300, caught.value.field) == (True, "label_column")


@pytest.mark.parametrize(
    ("text", "start", "span"),
    [
        ("film", 6, (6, 10)),
        ("film", 24, (24, 28)),
        ("plot", 3, (15, 19)),
        ("plot", 10**9, (15, 19)),
        (" and ", 10, (11, 14)),
        ("film", 0, None),
        ("cast", 2, None),
    ],
)
def test_answer_is_found_at_its_start_or_only_occurrence(text, start, span):
    assert find_answer(Span([text], [start]), "a bad film and plot, so film") == span


WORDS = "the The a an An film, film FILM. plot is was (good) good «bad» u.s."


def torchmetrics(answer, references):
    row = {"answers": {"text": references, "answer_start": [0] * len(references)}, "id": "1"}
    scores = squad([{"prediction_text": answer, "id": "1"}], [row])
    return float(scores["exact_match"]) / 100, float(scores["f1"]) / 100


def test_overlap_matches_torchmetrics():
    draw = random.Random(0)
    for _ in range(300):
        drawn = (draw.choices(WORDS.split(), k=draw.randint(0, 5)) for _ in range(draw.randint(2, 4)))
        answer, *references = map(" ".join, drawn)
        expected = torchmetrics(answer, references)
        assert (exact_match(answer, references), word_f1(answer, references)) == pytest.approx(expected)
    assert exact_match("The Film, a plot!", ["film plot"]) == 1
    assert exact_match("film plot", ["plot film"]) == 0
    assert word_f1("film plot", ["plot film"]) == 1
    assert word_f1("good good film", ["good plot", "cast", "film"]) == pytest.approx(0.5)
    assert word_f1("good good film", ["good"]) == pytest.approx(0.5)
    assert word_f1("dull", ["good", "film"]) == 0
    assert (word_f1("The", ["a"]), word_f1("The", ["film"]), word_f1("", ["film"])) == (1, 0, 0)


CONTEXT = "the film was very good and the plot was so dull and the cast is great"


def by_hand(starts, ends, inside):
    """Return the best span of one row from all pairs of its likeliest starts and ends."""
    positions = [i for i in range(len(inside)) if inside[i]]
    likely = [sorted(positions, key=lambda i: -float(logits[i]))[:N_BEST] for logits in (starts, ends)]
    spans = [(float(starts[s] + ends[e]), s, e) for s in likely[0] for e in likely[1] if 0 <= e - s < MAX_ANSWER_TOKENS]
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
    questions = [Question(text, CONTEXT, Span(references, [0] * len(references))) for text, _, references in cases]
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
            answer = CONTEXT.index(answer_texts[window.question_index])
            starts[i, 1], ends[i, 2] = 50, 50
            for token, (first, stop) in enumerate(window.offsets, start=window.first_token):
                starts[i, token] += 5.0 * (first == answer)
                ends[i, token] += 5.0 * (stop == answer + len(answer_texts[window.question_index]))
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
    question = Question("the film", "", Span(["film"], [0]))
    rows = cut_windows([question], make_tokenizer(), 18, 5)
    predictions = BestAnswers(rows, np.arange(1))
    batch = rows.collate([rows.dataset[0]])
    zeros = torch.zeros(batch["input_ids"].shape)
    predictions.add(QuestionAnsweringModelOutput(start_logits=zeros, end_logits=zeros), batch)
    assert {name: score.value for name, score in predictions.metrics().items()} == {"word_f1": 0, "exact_match": 0}


def question(answer="so dull", start=None, text="the plot is", context=CONTEXT):
    return Question(text, context, Span([answer], [context.find(answer) if start is None else start]))


def cut(questions, max_length=20, stride=4, **tokenizer):
    return cut_windows(questions, make_tokenizer(**tokenizer), max_length, stride)


def words(windows, row):
    """Return the words of a row's target span, and of its part of the text."""
    tokenizer = make_tokenizer()
    ids = windows.dataset[row]
    tokens = tokenizer.convert_ids_to_tokens(ids["input_ids"])
    window = windows.windows[row]
    context_words = tokens[window.first_token : window.first_token + len(window.offsets)]
    return tokens[ids["start_positions"] : ids["end_positions"] + 1], context_words


def test_window_targets_complete_answer_or_cls_token():
    windows = cut([question()], max_length=40)
    answer, context_words = words(windows, 0)
    assert (answer, context_words) == (["so", "dull"], CONTEXT.split())
    assert (len(windows), windows.n_examples, windows.token_counts.tolist()) == (1, 1, [22])
    begin, end = windows.windows[0].offsets[9, 0], windows.windows[0].offsets[10, 1]
    assert CONTEXT[begin:end] == "so dull"
    windows = cut([question("the", start=2)], max_length=40)
    assert words(windows, 0)[0] == ["[CLS]"]
    windows = cut([question("great")], max_length=18, stride=5)
    assert [words(windows, row)[0] for row in range(2)] == [["[CLS]"], ["great"]]
    split = cut([question("very good and the plot was so dull")], max_length=18, stride=5)
    target, cut_off = (words(split, row)[0] for row in range(2))
    assert (target, cut_off) == (["very", "good", "and", "the", "plot", "was", "so", "dull"], ["[CLS]"])


def test_windows_overlap_by_stride_and_cover_text():
    windows = cut([question(), question("film", text="a film")], max_length=18, stride=5)
    parts = [words(windows, row)[1] for row in range(len(windows))]
    assert [window.question_index for window in windows.windows] == [0, 0, 1, 1]
    assert (windows.n_examples, max(windows.token_counts)) == (2, 18)
    for first, second in (parts[:2], parts[2:]):
        assert first[-5:] == second[:5]
        assert first + second[5:] == CONTEXT.split()
    tokenizer = make_tokenizer()
    tokenizer.padding_side = "left"
    windows = cut_windows([question(), question("film", context="a film")], tokenizer, 40, 4)
    batch = windows.collate([windows.dataset[0], windows.dataset[1]])
    assert batch["attention_mask"][1].tolist() == [1] * 8 + [0] * 14
    assert batch["start_positions"].tolist() == [windows.dataset[0]["start_positions"], 6]


def test_long_questions_are_cut_and_counted():
    long = " ".join(["the"] * 90)
    windows = cut([question(text=long), question()], max_length=200, stride=20)
    assert windows.n_shortened == 1
    assert windows.windows[0].first_token == questions.MAX_QUESTION_TOKENS + 2
    short = cut([question(text=long)], max_length=40, stride=20)
    assert short.windows[0].first_token == 40 - 20 - questions.MIN_NEW_TOKENS - 3 + 2
    assert words(short, len(short) - 1)[1][-1] == "great"


@pytest.mark.parametrize("answer", ["naïve café", "東京 — film", "京", "é", "𝄞 so", "film"])
def test_offsets_are_characters_for_byte_tokens(answer):
    context = "a naïve café in 東京 — film 𝄞 so dull"
    words = ByteLevelBPETokenizer()
    words.train_from_iterator([context], vocab_size=256, show_progress=False)  # one token per byte
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words._tokenizer, pad_token="!")
    windows = cut_windows([question(answer, context=context)], tokenizer, 200, 4)
    row, window = windows.dataset[0], windows.windows[0]
    begin, _ = window.offsets[row["start_positions"] - window.first_token]
    _, end = window.offsets[row["end_positions"] - window.first_token]
    assert context[begin:end].strip() == answer


@pytest.mark.slow
def test_short_windows_and_tokenizers_without_offsets_are_refused():
    with pytest.raises(InvalidError, match=r"more than 31 tokens \(20 shared, 8 new, .*, got 31") as caught:
        cut([question()], max_length=31, stride=20)
    assert caught.value.field == "stride"
    assert cut([question()], max_length=32, stride=20).windows[0].first_token == 3
    with pytest.raises(InvalidError, match=r"a CanineTokenizer, does not map tokens to characters") as caught:
        cut_windows([question()], CanineTokenizer(), 40, 4)
    assert caught.value.field == "model"


def test_questions_keep_order_across_chunks(monkeypatch):
    questions = [question(word) for word in ("film", "good", "plot", "cast", "great")]
    windows = cut(questions, max_length=18)
    monkeypatch.setattr("workers.training.tasks.questions.QUESTIONS_AT_ONCE", 2)
    parts = cut(questions, max_length=18)
    assert [window.question_index for window in parts.windows] == [window.question_index for window in windows.windows]
    assert parts.dataset.to_dict() == windows.dataset.to_dict()


class TestSpan:
    def task(self, **changes):
        values = {"model": "m", "task": "span", "metric": "word_f1", "text_columns": ["question", "context"]}
        base = {"label_column": "answers", "label_names": [], "seed": 0, "regularizer": "none", "lam": 0, "stride": 4}
        return SpanTask(RunConfig.model_validate(values | base | changes))

    def columns(self, *starts):
        rows = [{"text": ["the"], "answer_start": [start]} for start in starts]
        n = len(starts)
        return {"question": ["a plot"] * n, "context": [CONTEXT] * n, "answers": [json.dumps(row) for row in rows]}

    def test_questions_without_found_answer_are_left_out_of_training(self):
        task = self.task()
        train = task.encode(self.columns(0, 3, 0, 4), make_tokenizer(), 40, training=True)
        validation = task.encode(self.columns(0, 3, 0), make_tokenizer(), 18)
        assert task.extra_results(train, validation) == {
            "n_questions": 3, "n_windows": 6, "n_train_questions": 2, "n_train_windows": 2, "n_train_left_out": 2,
            "n_questions_cut": 0,
        }  # fmt: skip
        assert validation.n_left_out == 0

    def test_missing_answers_and_columns_are_refused(self):
        with pytest.raises(InvalidError, match=r"None of the 2 answers in column 'answers' is found in its text"):
            self.task().encode(self.columns(1, 2), make_tokenizer(), 40, training=True)
        task = self.task(text_columns=["question"])
        with pytest.raises(InvalidError, match=r"Expected two text columns, .* got \['question'\]"):
            task.encode(self.columns(0), make_tokenizer(), 40)
        columns = self.columns(0, 0)
        columns["context"][1] = None
        with pytest.raises(InvalidError, match="Row 2 has no text in column 'context'"):
            self.task().encode(columns, make_tokenizer(), 40)
