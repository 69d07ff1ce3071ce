"""A task made of vectors and ground truth: grades, groups and labels."""

import numpy as np
import pytest

from isoscope.core.errors import InvalidError
from isoscope.files.ground_truth import NamedVectors, RowIds, read_qrels
from isoscope.task_files import compression_task, labels_task, queries_task
from isotropy.catalog import Similarity

N = 150
X = np.random.default_rng(0).normal(size=(N, 4)).astype(np.float32)


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
