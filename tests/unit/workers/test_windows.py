import json

import pytest
from tokenizers import ByteLevelBPETokenizer
from transformers import CanineTokenizer, PreTrainedTokenizerFast

from app.db.config import RunConfig
from isoscope.core.errors import InvalidError
from isoscope.files.span import Span as Answers
from tests.tiny import make_tokenizer
from workers.training.tasks.questions import NEW_TOKENS, QUESTION_TOKENS, Question, cut_windows
from workers.training.tasks.span import SpanTask

CONTEXT = "the film was very good and the plot was so dull and the cast is great"


def question(answer="so dull", start=None, text="the plot is", context=CONTEXT):
    return Question(text, context, Answers([answer], [context.find(answer) if start is None else start]))


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
    assert [words(split, row)[0] for row in range(2)] == [
        ["very", "good", "and", "the", "plot", "was", "so", "dull"],
        ["[CLS]"],
    ]


def test_windows_overlap_by_stride_and_cover_text():
    windows = cut([question(), question("film", text="a film")], max_length=18, stride=5)
    parts = [words(windows, row)[1] for row in range(len(windows))]
    assert [window.question for window in windows.windows] == [0, 0, 1, 1]
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
    assert windows.windows[0].first_token == QUESTION_TOKENS + 2
    short = cut([question(text=long)], max_length=40, stride=20)
    assert short.windows[0].first_token == 40 - 20 - NEW_TOKENS - 3 + 2
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
    assert [window.question for window in parts.windows] == [window.question for window in windows.windows]
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
