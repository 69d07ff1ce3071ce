import numpy as np
import pytest

from isoscope.core.errors import InvalidError
from isoscope.files.matrix import inspect, open_matrix
from isoscope.files.selection import Selection
from isoscope.files.upload import NamedFile, Upload, open_upload

X = np.random.default_rng(0).standard_normal((30, 4)).astype(np.float32)


def upload(tmp_path, **contents):
    """Write files and name them in the given order."""
    files = []
    for name, content in contents.items():
        filename = name.replace("_", ".")
        path = tmp_path / filename
        if isinstance(content, str):
            path.write_text(content)
        elif isinstance(content, dict):
            with path.open("wb") as stream:
                np.savez(stream, **content)
        else:
            np.save(path, content)
        files.append(NamedFile(path, filename))
    return Upload(tuple(files))


def test_shards_are_joined_in_file_order(tmp_path):
    shards = upload(tmp_path, a_npy=X[:7], b_npy=X[7:8], c_npy=X[8:])
    inspection = inspect(shards)
    assert (inspection.n, inspection.d, inspection.dtype) == (30, 4, "float32")
    matrix = open_matrix(shards, inspection.selection)
    np.testing.assert_array_equal(np.concatenate(list(matrix.chunks(5))), X)
    transposed = open_matrix(shards, Selection(vectors="array", transpose=True))
    assert (transposed.n, transposed.d) == (4, 30)
    np.testing.assert_array_equal(np.concatenate(list(transposed.chunks(3))), X.T)


def test_names_and_labels_are_joined_across_shards(tmp_path):
    words = np.array([f"w{i}" for i in range(30)])
    shards = upload(
        tmp_path,
        a_npz={"x": X[:10], "word": words[:10], "label": np.arange(10) % 2, "only here": np.arange(10)},
        b_npz={"x": X[10:], "word": words[10:], "label": 2 + np.arange(20) % 2},
    )
    _, contents = open_upload(shards)
    counts = {annotation.name: (annotation.n, annotation.n_distinct) for annotation in contents.annotations}
    assert counts == {"word": (30, 30), "label": (30, 4)}
    matrix = open_matrix(shards, Selection(vectors="x", names="word", labels="label"))
    assert matrix.names() == words.tolist()
    assert matrix.labels() == [str(i % 2) for i in range(10)] + [str(2 + i % 2) for i in range(20)]
    shards = upload(tmp_path, a_csv="word,x,y\nking,1.5,2\n", b_csv="word,x,y\nqueen,3.5,4\npawn,5.5,6\n")
    matrix = open_matrix(shards, Selection(vectors=["y", "x"], names="word"))
    assert np.concatenate(list(matrix.chunks())).tolist() == [[2, 1.5], [4, 3.5], [6, 5.5]]
    assert matrix.names() == ["king", "queen", "pawn"]


@pytest.mark.parametrize(
    ("contents", "sentence"),
    [
        ({"a_npy": X, "b_npy": X[:, :3]}, r"b\.npy holds 'array' of 3 dimensions \(float32\), but a\.npy holds"),
        ({"a_npy": X, "b_npy": X.astype("f8")}, r"b\.npy holds 'array' of 4 dimensions \(float64\)"),
        ({"a_npz": {"x": X}, "b_npz": {"y": X}}, r"b\.npz holds 'y' of 4 dimensions"),
        (
            {"a_csv": "x,y\n1.5,2\n", "b_csv": "x,z\n1.5,2\n"},
            r"b\.csv holds 2 columns of numbers, 'x', 'z', but a\.csv holds 2 columns of numbers, 'x', 'y'",
        ),
        ({"a_npy": X, "b_csv": "x,y\n1.5,2\n"}, r"b\.csv is a csv file, but a\.npy is npy: .* need the same format"),
        ({"a_csv": "x,y\n1.5,2\n", "b_csv": "x,y\n"}, r"^b\.csv: The file has a header but no rows"),
    ],
)
def test_mismatched_shards_are_refused_by_name(tmp_path, contents, sentence):
    with pytest.raises(InvalidError, match=sentence):
        open_upload(upload(tmp_path, **contents))


def test_all_columns_are_compared_and_errors_name_file(tmp_path):
    columns = [f"c{i}" for i in range(11)]
    row = ",".join(["1.5"] * 12)
    tables = {f"{name}_csv": f"{','.join([*columns, last])}\n{row}\n" for name, last in (("a", "x"), ("b", "y"))}
    with pytest.raises(InvalidError, match=r"b\.csv holds 12 columns of numbers, .* and 2 more, but a\.csv holds 12"):
        open_upload(upload(tmp_path, **tables))
    shards = upload(tmp_path, a_csv="x,y\n1.5,2\n", b_csv="x,y\n1.5,2\n2.5,3\nabc,3\n")
    with pytest.raises(InvalidError, match=r"^b\.csv: Line 4, column 1 \('x'\) holds 'abc' where a number belongs"):
        inspect(shards)
