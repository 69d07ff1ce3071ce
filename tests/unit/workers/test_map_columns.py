import json
from datetime import date, timedelta

import numpy as np
import pytest

from app.db.point_map import MAX_COLUMNS, MapColumn, MapSection
from isoscope.files.contents import MAX_DISTINCT
from isoscope.files.matrix import open_matrix
from isoscope.files.selection import Selection
from isoscope.files.upload import NamedFile, Upload
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
    columns = color_columns_of(
        csv(tmp_path, {"day": [*days, "2021-03-01T12:00:00+00:00", ""], "text": [*days, "soon", ""]})
    )
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
