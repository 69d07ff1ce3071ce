import numpy as np
import pytest
import torch

from app.db.models import RowsBy
from isoscope.files.matrix import open_matrix
from isoscope.files.selection import Selection
from isoscope.files.upload import NamedFile, Upload
from isotropy.catalog import Similarity
from workers.embeddings.alignments import compare_rows
from workers.embeddings.neighbors import find_named_neighbors, first_named_rows


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


@pytest.mark.parametrize("similarity", ["dot", "euclidean"])
def test_named_neighbors_by_dot_product_or_distance(x, similarity):
    scores = {"dot": x @ x[3], "euclidean": np.linalg.norm(x - x[3], axis=1)}[similarity]
    order = np.argsort(scores if similarity == "euclidean" else -scores)
    expected = [(f"word{row}", pytest.approx(scores[row], rel=1e-5)) for row in order if row != 3][:4]
    points = torch.from_numpy(x)
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
