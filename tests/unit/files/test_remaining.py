import numpy as np
import pytest

from isoscope.core.errors import InvalidError
from isoscope.files.matrix import inspect, open_matrix
from isoscope.files.selection import MAX_BITS, MAX_EXCLUDED_ROWS, MAX_LISTED, Selection, unpack_rows
from isoscope.files.upload import NamedFile, Upload

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
    assert matrix.names() == [f"r{i}" for i in range(12) if i not in (0, 9)]
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
    "rows", [[-1], list(range(MAX_EXCLUDED_ROWS + 1)), "not base64", "A" * (MAX_BITS // 6 + 5)],
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
    rows = list(range(3, 3 * MAX_LISTED + 6, 3))
    listed, packed = (Selection(vectors="array", without_rows=rows[:count]) for count in (MAX_LISTED, MAX_LISTED + 1))
    stored = packed.model_dump()["without_rows"]
    assert listed.model_dump()["without_rows"] == rows[:MAX_LISTED]
    assert isinstance(stored, str)
    assert len(stored) < MAX_LISTED
    assert unpack_rows(stored) == rows
    assert Selection.model_validate(packed.model_dump()) == packed
    assert Selection.model_validate_json(packed.model_dump_json()) == packed
