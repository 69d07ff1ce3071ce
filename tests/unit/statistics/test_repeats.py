from app.results.statistics.estimate import by_seed


def test_a_seed_counts_once_by_the_mean_of_its_runs_and_the_least_comes_first():
    assert list(by_seed([(2, 0.5), (1, 0.25), (1, 0.75), (2, 0.5)]).items()) == [(1, 0.5), (2, 0.5)]
