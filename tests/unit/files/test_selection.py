from types import SimpleNamespace

import numpy as np
import pytest
from pydantic import ValidationError

from isoscope.core.errors import InvalidError
from isoscope.files import selection
from isoscope.files.contents import Annotation, Part
from isoscope.files.matrix import inspect, open_matrix
from isoscope.files.selection import Selection, excluded_columns, possible_labels, propose, unpack_rows
from isoscope.files.upload import NamedFile, Upload

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


X = np.arange(60.0).reshape(12, 5)


def array(folder):
    np.save(folder / "x.npy", X)
    return Upload((NamedFile(folder / "x.npy", "x.npy"),))


def table(folder):
    path = folder / "x.csv"
    lines = [f"name,{','.join(f'e{i}' for i in range(5))}"]
    path.write_text("\n".join(lines + [f"r{i},{','.join(map(str, row))}" for i, row in enumerate(X)]))
    return Upload((NamedFile(path, "x.csv"),))


def read(upload, **chosen):
    matrix = open_matrix(upload, Selection(**chosen))
    chunks = list(matrix.chunks(4))
    return matrix, np.concatenate(chunks)


def test_excluded_rows_and_dimensions_are_left_out(tmp_path):
    columns = [f"e{i}" for i in range(5)]
    matrix, x = read(table(tmp_path), vectors=columns, names="name", without_rows=[9, 0, 9], without_dimensions=[3])
    assert np.array_equal(x, np.delete(np.delete(X, [0, 9], axis=0), 3, axis=1))
    assert (matrix.n, matrix.d, matrix.dimension_names) == (10, 4, ["e0", "e1", "e2", "e4"])
    assert list(matrix.contents.values("name")) == [f"r{i}" for i in range(12) if i not in (0, 9)]
    assert matrix.file_rows.tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 10, 11]
    assert matrix.dimension_numbers.tolist() == [0, 1, 2, 4]


def test_exclusions_apply_to_transposed_files_blocks_and_inspection(tmp_path):
    matrix, x = read(array(tmp_path), vectors="array", transpose=True, without_rows=[1], without_dimensions=[0, 11])
    assert np.array_equal(x, np.delete(np.delete(X.T, 1, axis=0), [0, 11], axis=1))
    assert (matrix.n, matrix.d) == (4, 10)
    _, x = read(array(tmp_path), vectors="array", without_rows=list(range(4, 9)))
    assert np.array_equal(x, np.delete(X, range(4, 9), axis=0))
    columns = [f"e{i}" for i in range(5)]
    inspection = inspect(table(tmp_path), Selection(vectors=columns, without_rows=[0], without_dimensions=[1]))
    assert (inspection.n, inspection.d, inspection.numeric_columns) == (11, 4, columns)
    assert inspection.preview[0].values == [5, 7, 8, 9]
    assert "Not part of the vector: 'e1'. The 4 chosen columns are measured." in inspection.warnings


@pytest.mark.parametrize(
    ("without", "field", "sentence"),
    [
        ({"without_rows": [12]}, "without_rows", "no row 12"),
        ({"without_dimensions": [7]}, "without_dimensions", "no dimension 7"),
        ({"without_rows": list(range(12))}, "without_rows", "no row: all 12"),
        ({"without_dimensions": list(range(5))}, "without_dimensions", "no dimension: all 5"),
    ],
)
def test_invalid_exclusion_is_refused(tmp_path, without, field, sentence):
    with pytest.raises(InvalidError, match=sentence) as refused:
        open_matrix(array(tmp_path), Selection(vectors="array", **without))
    assert refused.value.field == field


@pytest.mark.parametrize(
    "rows", [[-1], list(range(selection.MAX_EXCLUDED_ROWS + 1)), "not base64", "A" * (selection.MAX_BITS // 6 + 5)],
    ids=["below zero", "too many", "not base64", "too many bits"],
)  # fmt: skip
def test_invalid_row_list_is_refused(rows):
    with pytest.raises(ValueError, match="without_rows"):
        Selection(vectors="array", without_rows=rows)


def test_new_selection_keeps_valid_exclusions():
    former = {"vectors": ["a", "b"], "without_rows": [3], "without_dimensions": [1]}
    same = Selection(vectors=["a", "b"], labels="l").with_exclusions_of(former)
    assert (same.without_rows, same.without_dimensions) == ([3], [1])
    selection = Selection(vectors=["a", "c"]).with_exclusions_of(former)
    assert (selection.without_rows, selection.without_dimensions) == ([3], [])
    swapped = Selection(vectors=["a", "b"], transpose=True).with_exclusions_of(former)
    assert (swapped.without_rows, swapped.without_dimensions) == ([], [])


def test_many_excluded_rows_are_stored_as_bits():
    rows = list(range(3, 3 * selection.MAX_LISTED + 6, 3))
    limit = selection.MAX_LISTED
    listed, packed = (Selection(vectors="array", without_rows=rows[:count]) for count in (limit, limit + 1))
    stored = packed.model_dump()["without_rows"]
    assert listed.model_dump()["without_rows"] == rows[: selection.MAX_LISTED]
    assert isinstance(stored, str)
    assert len(stored) < selection.MAX_LISTED
    assert unpack_rows(stored) == rows
    assert Selection.model_validate(packed.model_dump()) == packed
    assert Selection.model_validate_json(packed.model_dump_json()) == packed


def part(name, n=10, d=4):
    return Part(name=name, n=n, d=d, dtype="float32")


def annotation(name, n_distinct, n=10):
    return Annotation(name=name, n=n, n_distinct=n_distinct, examples=[])


def proposed(*annotations, parts=(), columns=()):
    return propose(SimpleNamespace(parts=list(parts), numeric_columns=list(columns), annotations=list(annotations)))


def test_named_then_largest_array_or_all_columns_are_proposed():
    assert proposed(parts=[part("weights", d=100), part("Embeddings")]).vectors == "Embeddings"
    assert proposed(parts=[part("a"), part("b", d=5), part("c")]).vectors == "b"
    assert proposed(columns=["x", "y"]) == Selection(vectors=["x", "y"])
    columns = [f"{name}{i}" for name, n in (("t", 4), ("image", 8), ("u", 5)) for i in range(n)]
    assert proposed(columns=columns).vectors == [f"image{i}" for i in range(8)]


@pytest.mark.parametrize("names", ["e{}", "dim_{}", "{}", "x.{}", "embedding_{:04}"])
def test_numbered_columns_are_proposed_as_vector(names):
    family = [names.format(i) for i in range(3, 67)]
    selection = proposed(annotation("category", 3), columns=["price", *family, "year"])
    assert selection == Selection(vectors=family, labels="category")
    offer = SimpleNamespace(parts=[], numeric_columns=["price", *family, "year"], annotations=[])
    assert excluded_columns(offer, selection) == ["price", "year"]
    assert excluded_columns(offer, Selection(vectors=family, labels="year")) == ["price"]


@pytest.mark.parametrize(
    "columns", [["x1", "x2", "price"], ["a1", "b2", "c3"], ["x1", "x3", "x9", "y"], ["x", "y", "z"]]
)
def test_few_columns_or_gaps_are_no_numbered_vector(columns):
    assert proposed(columns=columns).vectors == columns


def test_names_are_unique_and_labels_repeat():
    selection = proposed(annotation("word", 10), annotation("part of speech", 3), parts=[part("x")])
    assert (selection.names, selection.labels) == ("word", "part of speech")
    assert proposed(annotation("id", 10), annotation("title", 10), parts=[part("x")]).names == "title"
    assert proposed(annotation("id", 10), parts=[part("x")]).names == "id"
    selection = proposed(annotation("color", 2), annotation("Label", 9), parts=[part("x")])
    assert selection.labels == "Label"
    selection = proposed(annotation("label", 1001, n=5000), parts=[part("x", n=5000)])
    assert (selection.names, selection.labels) == ("label", None)
    selection = proposed(annotation("word", 7, n=7), annotation("label", 2, n=7), parts=[part("x")])
    assert (selection.names, selection.labels) == (None, None)


def find_possible_labels(integer_names, columns):
    integer_columns = [annotation(name, 3) for name in integer_names]
    offer = SimpleNamespace(parts=[], numeric_columns=columns, annotations=integer_columns)
    return [column.name for column in possible_labels(offer, Selection(vectors=columns))]


def test_integer_columns_among_fractions_may_be_labels():
    assert find_possible_labels(["gold"], ["a", "b", "c", "gold"]) == ["gold"]
    assert find_possible_labels(["gold", "id"], ["a", "b", "c", "gold", "id"]) == ["gold", "id"]
    assert find_possible_labels(["a", "b"], ["a", "b"]) == []
    assert find_possible_labels(list("abcd"), list("abcdefgh")) == []
