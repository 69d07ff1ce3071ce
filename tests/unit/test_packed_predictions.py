import pickle
import zlib
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.db.predictions import HEADER, MAX_ROWS, Predictions
from isoscope.core.task import TaskKind


def labels(rows=(0, 3, 7), reference=(0, 1, 1), predicted=(0, 1, 0)):
    return Predictions(*(np.array(column, dtype=np.int64) for column in (rows, reference, predicted)))


def numbers(reference=(0.5, 1.25, -3.0), predicted=(0.1, 1e-30, 1e30)):
    return Predictions(np.arange(3), np.array(reference), np.array(predicted))


def answers(texts=("a name", "", "zwei Wörter")):
    return Predictions(np.arange(3) * 5, None, texts, np.array([1.0, 0.0, 0.0]), np.array([1.0, 0.0, 2 / 3]))


def columns(packed):
    return [None if column is None else [*column] for column in
            (packed.rows, packed.reference, packed.predicted, packed.exact_match, packed.f1)]  # fmt: skip


@pytest.mark.parametrize("predictions", [labels(), numbers(), answers()], ids=["labels", "numbers", "answers"])
def test_predictions_survive_packing(predictions):
    unpacked = Predictions.unpack(predictions.pack())
    assert columns(unpacked) == columns(predictions)
    assert (unpacked.kind, unpacked.rows.dtype) == (predictions.kind, np.int64)


def test_kind_follows_from_columns_and_labels_pack_small():
    assert [packed.kind for packed in (labels(), numbers(), answers())] == list(TaskKind)
    drawn = np.random.default_rng(0).integers(0, 2, (2, 10_000))
    assert len(Predictions(np.arange(10_000), *drawn).pack()) < 6_000


@given(st.lists(st.integers(0, 2**40), min_size=1, unique=True), st.data())
def test_any_labels_survive_packing(rows, data):
    values = data.draw(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=len(rows), max_size=len(rows)))
    predictions = labels(sorted(rows), values, values[::-1])
    assert columns(Predictions.unpack(predictions.pack())) == columns(predictions)


@given(st.lists(st.text(), min_size=3, max_size=3))
def test_any_answers_survive_packing(texts):
    assert Predictions.unpack(answers(tuple(texts)).pack()).predicted == tuple(texts)


@pytest.mark.parametrize(
    ("predictions", "constant"),
    [(labels(predicted=(1, 1, 1)), 1), (labels(), None), (numbers(predicted=(2.5, 2.5 + 1e-7, 2.5)), 2.5),
     (numbers(), None), (answers(("", "", "")), ""), (answers(), None)],
)  # fmt: skip
def test_constant_predictions_are_detected(predictions, constant):
    assert predictions.constant == constant


@pytest.mark.parametrize(
    ("make", "keyword"),
    [
        (lambda: labels((3, 0, 7)), "ascending"),
        (lambda: labels((0, 0, 7)), "ascending"),
        (lambda: labels((-1, 0, 7)), "ascending"),
        (lambda: labels((0, 1)), "one length"),
        (lambda: labels((), (), ()), "1 to"),
        (lambda: numbers((0.0, np.nan, 1.0)), "finite"),
        (lambda: numbers(predicted=(0.0, np.inf, 1.0)), "finite"),
        (lambda: Predictions(np.arange(3), np.zeros(3), np.zeros(3, dtype=np.int64)), "same type"),
        (lambda: Predictions(np.arange(3), None, np.zeros(3)), "reference"),
        (lambda: Predictions(np.arange(3), None, ("a", "b", "c")), "exact_match"),
        (lambda: Predictions(np.arange(3), None, ("a", "b", "c"), np.full(3, 2.0), np.ones(3)), "from 0 to 1"),
        (lambda: Predictions(np.arange(3.0), np.zeros(3), np.zeros(3)), "int64"),
        (lambda: Predictions(np.arange(4).reshape(2, 2), np.zeros(2), np.zeros(2)), "float64"),
    ],
)
def test_invalid_columns_are_refused(make, keyword):
    with pytest.raises(ValueError, match=keyword):
        make()


BODY = HEADER.size
GOOD = labels().pack()


@pytest.mark.parametrize(
    ("data", "keyword"),
    [
        (b"", "too few bytes"),
        (pickle.dumps([1, 2, 3]), "something else"),
        (b"ISP1" + bytes([9]) + GOOD[5:], "something else"),
        (HEADER.pack(b"ISP1", 0, MAX_ROWS + 1) + GOOD[BODY:], "rows"),
        (HEADER.pack(b"ISP1", 0, 0) + GOOD[BODY:], "rows"),
        (HEADER.pack(b"ISP1", 0, 2) + GOOD[BODY:], "more than"),
        (HEADER.pack(b"ISP1", 0, 4) + GOOD[BODY:], "cut off"),
        (GOOD[:-4], "cut off"),
        (GOOD + b"x", "followed by other bytes"),
        (GOOD[:BODY] + b"no zlib", "damaged"),
        (HEADER.pack(b"ISP1", 0, 3) + zlib.compress(bytes(10**8)), "more than"),
        (HEADER.pack(b"ISP1", 0, 2) + zlib.compress(np.array([0, -5, 0, 0, 0, 0]).tobytes()), "ascending"),
        (HEADER.pack(b"ISP1", 0, 2) + zlib.compress(np.array([2**62, 2**62, 0, 0, 0, 0]).tobytes()), "ascending"),
        (HEADER.pack(b"ISP1", 2, 1) + zlib.compress(np.array([0, 0, 0, 2**62]).tobytes()), "within"),
        (HEADER.pack(b"ISP1", 2, 1) + zlib.compress(np.array([0, 0, 0, 1]).tobytes() + b"\xff"), "utf-8"),
    ],
)
def test_invalid_bytes_are_refused(data, keyword):
    with pytest.raises(ValueError, match=keyword):
        Predictions.unpack(data)


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(data):
    for bytes_ in (data, GOOD[:BODY] + zlib.compress(data)):
        with suppress(ValueError):
            Predictions.unpack(bytes_)
