import pytest
import torch

from isotropy.hubness import hubness
from isotropy.neighbours import Neighbours, nearest_neighbours


def among(indices):
    """Neighbours with these indices, at distances of no matter."""
    indices = torch.tensor(indices)
    return Neighbours(torch.ones_like(indices, dtype=torch.float64), indices)


def test_the_centre_of_a_star_is_the_neighbour_of_all():
    star = torch.cat([torch.zeros(1, 6), torch.eye(6), -torch.eye(6)[:1] / 2])
    found = hubness(nearest_neighbours(star, 1), k=1)
    # The centre is nearest to all seven, and the shorter arm to the centre.
    assert found.occurrences.tolist() == [7, 0, 0, 0, 0, 0, 0, 1]
    assert found.greatest.value == 7
    assert found.antihubs.value == 6 / 8
    assert found.robin_hood.value == pytest.approx(6 / 8)
    # Deviations 6, six times -1 and 0: third moment 210 / 8, variance 42 / 8.
    assert found.skewness.value == pytest.approx((210 / 8) / (42 / 8) ** 1.5)


def test_the_robin_hood_index_is_the_share_of_places_to_be_given_away():
    found = hubness(among([[1, 2], [0, 2], [0, 1], [0, 1], [0, 1], [0, 1]]), k=2)
    # Counts 5, 5, 2, 0, 0, 0: of 12 places, 3 and 3 are more than 2.
    assert found.occurrences.tolist() == [5, 5, 2, 0, 0, 0]
    assert found.robin_hood.value == pytest.approx(6 / 12)


def test_points_on_a_circle_have_no_hubs_and_no_skewness():
    angles = torch.arange(30, dtype=torch.float64) * (2 * torch.pi / 30)
    found = hubness(nearest_neighbours(torch.stack([angles.cos(), angles.sin()], dim=1), 4), k=4)
    assert found.skewness.reason == "The skewness is undefined: every point is a neighbour of exactly 4 others."
    assert (found.robin_hood.value, found.antihubs.value, found.greatest.value) == (0, 0, 4)


def test_the_first_k_of_more_neighbours_are_counted():
    x = torch.randn(100, 20, generator=torch.Generator().manual_seed(0))
    more, enough = (hubness(nearest_neighbours(x, k)) for k in (15, 10))
    assert torch.equal(more.occurrences, enough.occurrences)
    assert more.skewness == enough.skewness


@pytest.mark.parametrize("n", [0, 1, 5, 11])
def test_points_that_are_all_neighbours_of_each_other_have_no_hubness(n):
    found = hubness(nearest_neighbours(torch.randn(n, 3), 10))
    for score in (found.skewness, found.robin_hood, found.antihubs, found.greatest):
        assert score.reason == f"Hubness with k = 10 needs at least 12 points; there are {n}."
    assert len(found.occurrences) == 0


def test_more_neighbours_than_were_searched_are_refused():
    with pytest.raises(ValueError, match="Expected k from 1 to 3, as many neighbours as were searched, got 10"):
        hubness(nearest_neighbours(torch.randn(30, 3), 3))
