import json
from types import SimpleNamespace

import numpy as np
import pytest

from app.db.models import Embedding
from app.db.task import TaskConfig
from isoscope.core.errors import InvalidError
from isoscope.files.ground_truth import NamedRows, NamedVectors, RowIds, read_qrels, vectors_of
from isoscope.files.matrix import open_matrix
from isoscope.files.selection import Selection
from isoscope.files.upload import NamedFile, Upload
from isoscope.task_files import compression_task, labels_task, queries_task
from isotropy.catalog import Similarity, TruthKind
from workers import tasks

N, D = 130, 4
X = np.random.default_rng(0).normal(size=(N, D)).astype(np.float32)


@pytest.fixture
def upload(tmp_path):
    path = tmp_path / "a.jsonl"
    rows = ({"_id": f"d{row}", "side": "ab"[row % 2], "embedding": vector.tolist()} for row, vector in enumerate(X))
    path.write_text("\n".join(map(json.dumps, rows)))
    return Upload((NamedFile(path, path.name),))


@pytest.fixture
def read(upload, monkeypatch):
    monkeypatch.setattr(tasks, "fetch_upload", lambda *_: upload)

    def read(ids=None, truth=None, **selection):
        chosen = Selection(vectors="embedding", **{"names": "_id"} | selection).model_dump()
        job = SimpleNamespace(settings=None, row=SimpleNamespace(truth_sha256=truth))
        return tasks._load_vectors(Embedding(name="a", selection=chosen), job, "corpus", ids, labels_column="side")

    return read


@pytest.mark.parametrize("left_out", [{"without_rows": [0, 1, 2, 3, 4, 5, 9]}, {"without_dimensions": [0]}])
def test_excluded_rows_and_dimensions_are_left_out_once(read, left_out):
    loaded = read(**left_out)
    rows = [row for row in range(N) if row not in left_out.get("without_rows", [])]
    assert np.array_equal(loaded.x, X[rows][:, len(left_out.get("without_dimensions", [])) :])
    assert loaded.labels == ["ab"[row % 2] for row in rows]
    assert loaded.ids == [f"d{row}" for row in rows]


def test_groups_apply_to_compression_and_missing_rows_are_refused(read, upload):
    config = TaskConfig(kind=TruthKind.COMPRESSION, groups="side")
    corpus = Embedding(name="a", selection=Selection(vectors="embedding").model_dump())
    row = SimpleNamespace(truth_sha256=None, config=config)
    task = tasks._load_task(SimpleNamespace(settings=None, row=row, corpus=corpus, queries=None))
    assert set(task.truth.group_codes(task.corpus).tolist()) == {0, 1}
    matrix = open_matrix(upload, Selection(vectors="embedding"))
    short = SimpleNamespace(n=N + 1, d=D, chunks=matrix.chunks, groups=lambda: None, labels=lambda: None)
    with pytest.raises(InvalidError, match="130 rows, expected 131"):
        vectors_of(short, RowIds("a.jsonl", [], None), "corpus")


def test_ids_follow_excluded_rows(upload, read, tmp_path):
    assert read(ids="_id", truth="0" * 64, without_rows=[0, 2]).ids[:2] == ["d1", "d3"]
    assert read(truth="0" * 64, names=None, without_rows=[0, 2]).ids[:2] == ["d1", "d3"]
    chosen = Selection(vectors="embedding", without_rows=[0, 2])
    assert NamedRows(upload, chosen, "a", "_id").read("ids").values[:2] == ["d1", "d3"]
    path = tmp_path / "a.npy"
    np.save(path, X)
    rows = NamedRows(Upload((NamedFile(path, path.name),)), Selection(vectors="array", without_rows=[0, 2]), "a")
    assert rows.read("ids").values[:2] == ["1", "3"]


def as_named(x, groups=None, labels=None):
    return NamedVectors("a.npy", x, RowIds("a.npy", [str(row) for row in range(len(x))], None), groups, labels)


def test_too_large_grade_is_refused_by_row(tmp_path):
    path = tmp_path / "qrels.tsv"
    path.write_text("query-id\tcorpus-id\tscore\nq\ta\t1000\nq\tb\t1000000000\n")
    with pytest.raises(InvalidError, match=r"Row 2 of qrels.tsv .* at most 1,000") as refused:
        read_qrels(path, path.name)
    assert refused.value.field == "qrels"


def test_query_groups_are_kept_and_duplicates_share_one():
    groups = ["one", "two"] * 10
    task = queries_task(as_named(X), as_named(X[:20], groups), Similarity.COSINE)
    codes = task.truth.group_codes(task.corpus)
    assert codes.tolist() == [0, 1] * 10
    groups = [f"g{row // 3}" for row in range(N)]
    task = compression_task(as_named(X, groups), Similarity.COSINE, 0)
    group_of = {vector.tobytes(): group for vector, group in zip(X, groups, strict=True)}
    query_groups = [group_of[vector.tobytes()] for vector in task.truth.vectors]
    codes = task.truth.group_codes(task.corpus).tolist()
    assert len(set(query_groups)) < len(query_groups)
    assert len(set(codes)) == len(set(query_groups)) == len(set(zip(codes, query_groups, strict=True)))
    task = queries_task(as_named(X), as_named(np.concatenate([X[:10], X[:10]])), Similarity.COSINE)
    assert task.truth.group_codes(task.corpus).tolist() == [*range(10)] * 2


def test_long_label_is_not_padded_to_every_row():
    rows = 300_000
    labels = ["b", "", "a" * 1_000_000] + ["b"] * (rows - 3)
    truth = labels_task(as_named(np.zeros((rows, 1), np.float32), ["x" * 1_000_000] + ["y"] * (rows - 1), labels)).truth
    assert truth.rows[:3].tolist() == [0, 2, 3]
    assert truth.codes[:3].tolist() == [1, 0, 1]
    assert truth.groups[:3].tolist() == [0, 1, 1]
