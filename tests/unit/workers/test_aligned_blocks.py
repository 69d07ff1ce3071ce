import numpy as np
import pytest

from app.db.models import RowsBy
from isoscope.files.matrix import open_matrix
from isoscope.files.selection import Selection
from isoscope.files.upload import NamedFile, Upload
from workers.embeddings.alignments import compare_rows

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
