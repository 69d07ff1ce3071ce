import json
from datetime import date, timedelta

import numpy as np
import pytest
import torch

from app.db.encoding import EncodingConfig
from app.db.models import RowsBy
from app.db.point_map import MAX_COLUMNS, MapColumn, MapSection
from isoscope.core.errors import InvalidError
from isoscope.files.contents import MAX_DISTINCT
from isoscope.files.matrix import open_matrix
from isoscope.files.selection import Selection
from isoscope.files.upload import NamedFile, Upload
from isotropy.catalog import Similarity
from workers.embeddings.alignments import compare_rows
from workers.embeddings.encoder import load_texts
from workers.embeddings.neighbors import find_named_neighbors, first_named_rows
from workers.embeddings.point_map import MAX_NUMBERED_LABELS, read_color_columns

N = 40
COLUMNS = {
    "price": [str(i / 4) for i in range(N)],
    "year": [str(1980 + i) for i in range(N)],
    "stars": [str(i % 3) for i in range(N)],
    "topic": ["a" if i % 4 else "" for i in range(N)],
    "same": ["1"] * N,
}


def csv(folder, cols, n=N):
    lines = [",".join(["word", "x0", "x1", "x2", *cols])]
    lines += [
        ",".join([f"w{i}", f"{i}.5", f"{i % 7}.25", f"{i % 5}.5", *(cols[name][i] for name in cols)]) for i in range(n)
    ]
    path = folder / "kept.csv"
    path.write_text("\n".join(lines))
    return Upload((NamedFile(path, path.name),))


def jsonl(folder, cols):
    path = folder / "kept.jsonl"
    rows = [
        {"vector": [i, i % 7 + 0.5], **{name: json.loads(cols[name][i] or "null") for name in cols}} for i in range(N)
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    return Upload((NamedFile(path, path.name),))


def color_columns_of(upload, rows=None, **chosen):
    matrix = open_matrix(upload, Selection(**{"vectors": ["x0", "x1", "x2"], "names": "word"} | chosen))
    selected = read_color_columns(matrix, np.arange(matrix.n) if rows is None else np.array(rows))
    return {column.name: column for column in selected}


def test_fractions_are_a_scale_and_other_values_labels(tmp_path):
    columns = color_columns_of(csv(tmp_path, COLUMNS))
    assert set(columns) == {"price", "year", "stars", "topic"}
    assert (columns["price"].labels, columns["year"].labels) == (None, None)
    assert columns["price"].values.tolist() == [i / 4 for i in range(N)]
    assert (columns["stars"].labels.names, columns["stars"].labels.counts) == (["0", "1", "2"], [14, 13, 13])
    assert (columns["topic"].labels.names, columns["topic"].labels.counts) == (["a", ""], [30, 10])
    assert columns["topic"].values.tolist() == [int(i % 4 == 0) for i in range(N)]
    assert set(color_columns_of(csv(tmp_path, COLUMNS), labels="topic")) == {"price", "year", "stars"}
    assert "x2" in color_columns_of(csv(tmp_path, COLUMNS), vectors=["x0", "x1"])
    prices = [*COLUMNS["price"][:-2], "", "1e300"]
    assert np.isnan(color_columns_of(csv(tmp_path, {"price": prices}))["price"].values[-2:]).all()


def test_dates_are_a_scale_of_days(tmp_path):
    first = date(2021, 3, 1)
    days = [(first + timedelta(days=31 * i)).isoformat() for i in range(N - 2)]
    columns = {"day": [*days, "2021-03-01T12:00:00+00:00", ""], "text": [*days, "soon", ""]}
    columns = color_columns_of(csv(tmp_path, columns))
    column = columns["day"]
    assert (column.labels, column.dates, columns["text"].dates) == (None, True, False)
    assert column.values[:2].tolist() == [(first - date(1970, 1, 1)).days, (first - date(1970, 1, 1)).days + 31]
    assert column.values[-2] == column.values[0] + 0.5
    values = MapSection(type="float32", offset=0, count=N)
    stored = MapColumn(name="day", values=values, labels=None, dates=True)
    assert [stored.format_value(value) for value in column.values.tolist()] == [*days, "2021-03-01", ""]


@pytest.mark.parametrize("without", [[], [0, 5]])
def test_color_values_follow_map_rows(tmp_path, without):
    remaining = [i for i in range(N) if i not in without]
    values = color_columns_of(csv(tmp_path, COLUMNS), rows=[1, 3], without_rows=without)["price"].values
    assert values.tolist() == [remaining[1] / 4, remaining[3] / 4]


def test_jsonl_fractions_are_color_columns(tmp_path):
    data = {"price": [*COLUMNS["price"][:-1], ""], "stars": COLUMNS["stars"]}
    columns = color_columns_of(jsonl(tmp_path, data), vectors="vector", names=None)
    assert columns["price"].values[1] == 0.25
    assert np.isnan(columns["price"].values[-1])
    assert columns["stars"].labels.names == ["0", "1", "2"]


def test_distinct_words_columns_and_numbered_labels_are_limited(tmp_path):
    n = MAX_DISTINCT + 2
    data = {"text": [f"t{i}" for i in range(n)], "half": [f"t{i // 2}" for i in range(n)]}
    assert set(color_columns_of(csv(tmp_path, data, n))) == {"half"}
    many_columns = {f"k{i}": [str(number / 3) for number in range(N)] for i in range(MAX_COLUMNS + 3)}
    assert len(color_columns_of(csv(tmp_path, many_columns))) == MAX_COLUMNS
    for count, is_labeled in ((MAX_NUMBERED_LABELS, True), (MAX_NUMBERED_LABELS + 1, False)):
        column = color_columns_of(csv(tmp_path, {"grade": [str(i % count) for i in range(N)]}))["grade"]
        assert (column.labels is not None) is is_labeled


@pytest.fixture
def x():
    return np.random.default_rng(0).normal(size=(60, 5)).astype(np.float32) + 1


def names(n):
    return [f"word{i}" for i in range(n)]


def nearest(x, row, k):
    """Return names and cosines by definition, nearest first."""
    other_rows = [i for i in range(len(x)) if i != row]
    cosines = {i: x[i] @ x[row] / np.linalg.norm(x[i]) / np.linalg.norm(x[row]) for i in other_rows}
    return [(f"word{i}", cosines[i]) for i in sorted(other_rows, key=lambda i: -cosines[i])[:k]]


def pairs(side):
    return [(neighbor["name"], pytest.approx(neighbor["cosine"], abs=1e-5)) for neighbor in side]


def test_named_neighbors_have_largest_cosines(x):
    after = x - x.mean(0)
    neighbors = find_named_neighbors(names(60), *map(torch.from_numpy, (x, after)), torch.tensor([3, 41]), 4)
    assert [neighbor["name"] for neighbor in neighbors] == ["word3", "word41"]
    for neighbor, row in zip(neighbors, (3, 41), strict=True):
        assert nearest(x, row, 4) == pairs(neighbor["before"])
        assert nearest(after, row, 4) == pairs(neighbor["after"])
    points = torch.from_numpy(x[:3])
    (neighbors,) = find_named_neighbors(names(3), points, points, torch.tensor([0]), 8)
    assert len(neighbors["before"]) == 2


@pytest.mark.parametrize("unit", [1.0, 2.0**80])
@pytest.mark.parametrize("similarity", ["dot", "euclidean"])
def test_named_neighbors_by_dot_product_or_distance(x, similarity, unit):
    points = torch.from_numpy((unit * x).astype(np.float32))
    x = unit * x.astype(np.float64)
    scores = {"dot": x @ x[3], "euclidean": np.linalg.norm(x - x[3], axis=1)}[similarity]
    order = np.argsort(scores if similarity == "euclidean" else -scores)
    expected = [(f"word{row}", pytest.approx(scores[row], rel=1e-5)) for row in order if row != 3][:4]
    (entry,) = find_named_neighbors(names(60), points, points, torch.tensor([3]), 4, similarity=Similarity(similarity))
    assert [(neighbor["name"], neighbor[similarity]) for neighbor in entry["after"]] == expected


def test_duplicate_is_a_neighbor_and_zero_row_is_not(x):
    x[7] = 2 * x[3]
    (entry,) = find_named_neighbors(names(60), torch.from_numpy(x), torch.from_numpy(x), torch.tensor([3]), 2)
    assert entry["before"][0] == {"name": "word7", "cosine": pytest.approx(1, abs=1e-6)}
    assert entry["before"][0]["cosine"] <= 1
    x[5] = 0
    points = torch.from_numpy(x)
    zeros, second = find_named_neighbors(names(60), points, points, torch.tensor([5, 6]), 59)
    assert zeros["before"] == []
    assert len(second["before"]) == 58
    assert "word5" not in {neighbor["name"] for neighbor in second["before"]}


def test_extreme_points_keep_cosines_and_names_are_unique():
    points = torch.tensor([[1e200, 0.0], [1e-200, 1e-200], [0.0, 3.0]], dtype=torch.float64)
    (entry,) = find_named_neighbors(names(3), points, points, torch.tensor([0]), 1)
    assert entry["before"] == [{"name": "word1", "cosine": pytest.approx(0.5**0.5)}]
    x = torch.tensor([[1.0], [0.0], [2.0], [3.0], [4.0]])
    order = torch.tensor([4, 3, 2, 1, 0])
    assert first_named_rows(["a", "b", "", "d", "d"], x, order, 9).tolist() == [4, 0]
    assert first_named_rows(["a", "b", "c", "d", "e"], x, order, 2).tolist() == [4, 3]


DOCUMENTS = np.repeat(np.arange(30), 10)


def matrix(tmp_path, name, seed, groups=None, documents=DOCUMENTS):
    """Return rows that cluster by document."""
    draw = np.random.default_rng(seed)
    x = draw.normal(size=(30, 3))[DOCUMENTS] + 0.1 * draw.normal(size=(300, 3))
    lines = [f"{document}," + ",".join(map(str, row)) for document, row in zip(documents, x, strict=True)]
    path = tmp_path / f"{name}.csv"
    path.write_text("\n".join(["document,a,b,c", *lines]))
    return open_matrix(Upload((NamedFile(path, path.name),)), Selection(vectors=["a", "b", "c"], groups=groups))


def errors(first, second):
    scores = compare_rows(first, second, RowsBy.ORDER)[0]["scores"]
    return {slug: np.linalg.norm(score["parts"]) for slug, score in scores.items()}


def test_groups_of_either_embedding_set_blocks(tmp_path):
    plain, second = matrix(tmp_path, "plain", 0), matrix(tmp_path, "other", 1)
    grouped = matrix(tmp_path, "grouped", 1, "document")
    forward, back = errors(plain, grouped), errors(grouped, plain)
    assert forward == pytest.approx(back)
    assert forward["cka"] > 1.5 * errors(plain, second)["cka"]
    plain = matrix(tmp_path, "one", 0)
    grouped = matrix(tmp_path, "other", 1, "document", ["all"] * 300)
    scores = compare_rows(plain, grouped, RowsBy.ORDER)[0]["scores"]
    assert all(score["value"] is not None and score["parts"] == [] for score in scores.values())


TABLE = 'a,b,gold\n"one, two",x,1\n,y,0\nthree,z,1.0\nfour,,\n'


def config(**settings):
    return EncodingConfig.model_validate({"model": "any", "text_columns": ["a"], **settings})


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "stored"
    path.write_text(TABLE)
    return path


def test_rows_without_text_are_left_out_and_counted(table):
    texts = load_texts(table, "rows.csv", config(label_column="gold"))
    assert texts.rows == [("one, two",), ("three",), ("four",)]
    assert (texts.row_numbers, texts.labels, texts.n_empty) == ([1, 3, 4], ["1", "1", ""], 1)
    texts = load_texts(table, "rows.csv", config(text_columns=["a", "b"]))
    assert (texts.rows, texts.row_numbers, texts.labels) == ([("one, two", "x"), ("three", "z")], [1, 3], None)
    annotations = {column: list(values) for column, values in texts.annotations().items()}
    assert annotations == {"name": ["one, two / x", "three / z"]}


def test_ids_are_normalized_as_in_ground_truth(tmp_path):
    (path := tmp_path / "stored").write_text('{"_id": 3.0, "a": "x"}\n{"_id": 4, "a": ""}\n{"_id": " d5", "a": "y"}\n')
    texts = load_texts(path, "t.jsonl", config(), ids="_id")
    assert texts.ids == ["3", "d5"]
    assert list(texts.annotations()) == ["name", "id"]


def test_text_file_is_read_by_line_and_empty_column_refused(tmp_path):
    (path := tmp_path / "stored").write_text("\ufeffone\n\n  \ntwo\n", encoding="utf-8")
    texts = load_texts(path, "texts.txt", config(text_columns=["line"]))
    assert (texts.rows, texts.row_numbers, texts.n_empty) == ([("one",), ("two",)], [1, 4], 2)
    (path := tmp_path / "stored").write_text("a,b\n,x\n ,y\n")
    with pytest.raises(InvalidError, match=r"None of the 2 rows of t\.csv has text in 'a': choose another column\."):
        load_texts(path, "t.csv", config())


def test_texts_are_sampled_by_seed_and_names_are_short(tmp_path):
    (path := tmp_path / "stored").write_text("".join(f"text {i}\n" for i in range(1, 101)))
    drawn = [load_texts(path, "t.txt", config(text_columns=["line"], max_rows=10, seed=s)) for s in (0, 0, 1)]
    assert drawn[0].row_numbers == sorted(drawn[0].row_numbers) == drawn[1].row_numbers != drawn[2].row_numbers
    assert drawn[0].rows == [(f"text {number}",) for number in drawn[0].row_numbers]
    assert len(drawn[0]) == 10
    (path := tmp_path / "stored").write_text(json.dumps({"a": "x\n\ty \ud800 " + 100 * "long "}) + "\n")
    (name,) = load_texts(path, "t.jsonl", config()).annotations()["name"]
    assert len(name) == 80
    assert name.startswith("x y ? long")
    assert name.endswith("…")
