from types import SimpleNamespace

import pytest
from pydantic import ValidationError

from isoscope.core.errors import InvalidError
from isoscope.files.contents import Annotation, Part
from isoscope.files.selection import Selection

ARRAYS = SimpleNamespace(
    parts=[Part(name="a", n=10, d=4, dtype="float32"), Part(name="b", n=3, d=3, dtype="int8")],
    numeric_columns=[],
    annotations=[
        Annotation(name="word", n=10, n_distinct=10, examples=[]),
        Annotation(name="dimension", n=4, n_distinct=4, examples=[]),
        Annotation(name="many", n=10, n_distinct=1001, examples=[]),
    ],
)
TABLE = SimpleNamespace(
    parts=[], numeric_columns=["x", "y"], annotations=[Annotation(name="word", n=10, n_distinct=2, examples=[])]
)


@pytest.mark.parametrize(
    ("offer", "chosen"),
    [
        (ARRAYS, {"vectors": "a", "names": "word", "labels": "word"}),
        (ARRAYS, {"vectors": "a", "names": "many"}),
        (ARRAYS, {"vectors": "a", "names": "dimension", "transpose": True}),
        (ARRAYS, {"vectors": "b"}),
        (TABLE, {"vectors": ["y", "x"], "labels": "word"}),
        (TABLE, {"vectors": ["x"], "transpose": True}),
    ],
)
def test_offered_selection_is_accepted(offer, chosen):
    Selection(**chosen).check(offer)


@pytest.mark.parametrize(
    ("offer", "chosen", "field", "sentence"),
    [
        (ARRAYS, {"vectors": "c"}, "vectors", "The file has no array 'c' .*: choose one of 'a', 'b'"),
        (ARRAYS, {"vectors": ["a"]}, "vectors", "The file has no array"),
        (ARRAYS, {"vectors": "a", "names": "c"}, "names", "nothing called 'c' for the names: choose one of 'word'"),
        (ARRAYS, {"vectors": "a", "names": "dimension"}, "names", "'dimension' has 4 values, but the matrix has 10"),
        (ARRAYS, {"vectors": "a", "names": "word", "transpose": True}, "names", "has 10 values, but the matrix has 4"),
        (ARRAYS, {"vectors": "a", "labels": "many"}, "labels", "more than 1,000 different values, which looks like"),
        (TABLE, {"vectors": "x"}, "vectors", "a list of columns that hold the vectors, got 'x': choose at least"),
        (TABLE, {"vectors": []}, "vectors", r"Expected a list of columns that hold the vectors, got \[\]"),
        (TABLE, {"vectors": ["x", "z"]}, "vectors", "no column 'z' of numbers: choose among 'x', 'y'"),
        (TABLE, {"vectors": ["x", "x"]}, "vectors", "A column was chosen twice"),
        (TABLE, {"vectors": ["x"], "names": "word", "transpose": True}, "names", "has 10 values, but the matrix has 1"),
    ],
)
def test_unoffered_selection_is_refused_at_its_field(offer, chosen, field, sentence):
    with pytest.raises(InvalidError, match=sentence) as raised:
        Selection(**chosen).check(offer)
    assert raised.value.field == field


def test_names_and_labels_are_not_coordinates():
    with pytest.raises(ValidationError):
        Selection(vectors="a", label="word")
    chosen = Selection(vectors=["x", "gold", "y", "id"], names="id", labels="gold")
    assert chosen.vectors == ["x", "y"]
    assert Selection.model_validate(chosen.model_dump()) == chosen
