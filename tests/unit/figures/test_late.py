from app.results.statistics.estimate import tail_mean


def test_a_late_mean_is_of_what_is_known_in_the_last_three_tenths_of_the_steps():
    assert tail_mean([(0, 9.0), (69, 9.0), (70, 1.0), (90, None), (100, 2.0)], 100) == 1.5


def test_the_last_part_is_that_of_the_run_and_not_of_its_last_known_value():
    assert tail_mean([(0, 9.0), (60, 1.0)], 100) is None
    assert tail_mean([], 100) is None
