import numpy as np
import pytest
import torch

from isotropy.cloud import read_cloud
from isotropy.postprocess.removal import fit_all_but_the_top
from isotropy.rows import Rows
from workers.embeddings.neighbours import K, first_named_rows, named_neighbours, neighbours_data


@pytest.fixture
def x():
    return np.random.default_rng(0).normal(size=(60, 5)).astype(np.float32) + 1


def names(n):
    return [f"word{i}" for i in range(n)]


def nearest(x, row, k):
    """Names and cosines by the definition, nearest first."""
    other_rows = [i for i in range(len(x)) if i != row]
    cosines = {i: x[i] @ x[row] / np.linalg.norm(x[i]) / np.linalg.norm(x[row]) for i in other_rows}
    return [(f"word{i}", cosines[i]) for i in sorted(other_rows, key=lambda i: -cosines[i])[:k]]


def pairs(side):
    return [(neighbor["name"], pytest.approx(neighbor["cosine"], abs=1e-5)) for neighbor in side]


def test_neighbours_are_those_of_greatest_cosine_before_and_after(x):
    after = x - x.mean(0)
    neighbours = named_neighbours(names(60), torch.from_numpy(x), torch.from_numpy(after), torch.tensor([3, 41]), 4)
    assert [neighbour["name"] for neighbour in neighbours] == ["word3", "word41"]
    for neighbour, row in zip(neighbours, (3, 41), strict=True):
        assert nearest(x, row, 4) == pairs(neighbour["before"])
        assert nearest(after, row, 4) == pairs(neighbour["after"])
    points = torch.from_numpy(x[:3])
    (neighbours,) = named_neighbours(names(3), points, points, torch.tensor([0]), 8)
    assert len(neighbours["before"]) == 2


def test_a_duplicate_is_a_neighbour_and_rows_of_zeros_are_not(x):
    x[7] = 2 * x[3]
    (entry,) = named_neighbours(names(60), torch.from_numpy(x), torch.from_numpy(x), torch.tensor([3]), 2)
    assert entry["before"][0] == {"name": "word7", "cosine": pytest.approx(1, abs=1e-6)}
    assert entry["before"][0]["cosine"] <= 1
    x[5] = 0
    points = torch.from_numpy(x)
    zeros, second = named_neighbours(names(60), points, points, torch.tensor([5, 6]), 59)
    assert zeros["before"] == []
    assert len(second["before"]) == 58
    assert "word5" not in {neighbor["name"] for neighbor in second["before"]}


def test_large_and_tiny_points_keep_their_cosines_and_each_name_is_taken_once():
    points = torch.tensor([[1e200, 0.0], [1e-200, 1e-200], [0.0, 3.0]], dtype=torch.float64)
    (entry,) = named_neighbours(names(3), points, points, torch.tensor([0]), 1)
    assert entry["before"] == [{"name": "word1", "cosine": pytest.approx(0.5**0.5)}]
    x = torch.tensor([[1.0], [0.0], [2.0], [3.0], [4.0]])
    order = torch.tensor([4, 3, 2, 1, 0])
    assert first_named_rows(["a", "b", "", "d", "d"], x, order, 9).tolist() == [4, 0]
    assert first_named_rows(["a", "b", "c", "d", "e"], x, order, 2).tolist() == [4, 3]


def of_pairs(cloud):
    return [f"word{row}" for row in cloud.rows.tolist()]


def test_a_report_has_the_neighbours_of_200_names_that_the_seed_draws(x):
    large = np.random.default_rng(1).normal(size=(260, 5))
    data = neighbours_data(read_cloud(Rows(large), seed=0), [f"word{row}" for row in range(260)], seed=0)
    assert len({named_row["name"] for named_row in data["of"]}) == 200
    cloud = read_cloud(Rows(x))
    first, again, reseeded = (neighbours_data(cloud, of_pairs(cloud), seed) for seed in (0, 0, 1))
    assert first == again
    assert [named_row["name"] for named_row in first["of"]] != [named_row["name"] for named_row in reseeded["of"]]


def test_a_report_has_the_neighbours_of_names_less_the_top_component(x):
    x[17] = np.nan
    cloud = read_cloud(Rows(x), seed=0)
    data = neighbours_data(cloud, of_pairs(cloud), seed=0)
    assert (data["k"], data["rows"]) == (K, 59)
    assert (data["method"], data["parameters"]) == ("all_but_the_top", {"D": 1})
    assert len({row["name"] for row in data["of"]}) == 59
    clean = np.delete(x, 17, 0)
    after = fit_all_but_the_top(torch.from_numpy(clean)).apply(torch.from_numpy(clean)).numpy()
    positions = [i for i in range(60) if i != 17]
    entry = data["of"][0]
    row = positions.index(int(entry["name"].removeprefix("word")))
    expected_names = {f"word{i}": f"word{position}" for i, position in enumerate(positions)}
    for side, points in (("before", clean), ("after", after)):
        expected = [(expected_names[name], cosine) for name, cosine in nearest(points, row, K)]
        assert [name for name, _ in expected] == [row["name"] for row in entry[side]]
        assert [cosine for _, cosine in expected] == pytest.approx([row["cosine"] for row in entry[side]], abs=1e-4)


def test_a_report_without_directions_or_names_has_no_neighbours(x):
    assert neighbours_data(read_cloud(Rows(x * 0)), names(60), 0) is None
    assert neighbours_data(read_cloud(Rows(x)), None, 0) is None
    assert neighbours_data(read_cloud(Rows(x)), [""] * 60, 0) is None


def test_points_whose_squares_are_beyond_float64_have_the_neighbours_of_smaller_ones(x):
    data, expected = (neighbours_data(read_cloud(Rows(x.astype(np.float64) * 2.0**k)), names(60), 0) for k in (660, 0))
    assert data == expected
