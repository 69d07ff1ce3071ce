"""The cases of tasks with few simulations: that they run, and that none is far off. The benchmark has all of them."""

import pytest

from benchmarks import _calibration_tasks
from benchmarks._calibration import rate

CASES = _calibration_tasks.cases()


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_case_is_not_far_off(case):
    assert rate(case, 12).ok(errors=4)


def test_queries_come_in_groups_and_apart():
    assert len({case.name for case in CASES}) == len(CASES)
    assert {"apart" in case.name for case in CASES} == {True, False}
