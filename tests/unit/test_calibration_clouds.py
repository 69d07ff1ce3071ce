"""The cases of clouds with few simulations: that they run, and that none is far off. The benchmark has all of them."""

import pytest

from benchmarks import _calibration_clouds
from benchmarks._calibration import rate

CASES = _calibration_clouds.cases()
SHORT = [case for case in CASES if " x 20, 1/i, t5" in case.name or "copies" in case.name or "paired" in case.name]


def test_cases_have_names_of_their_own():
    assert len({case.name for case in CASES}) == len(CASES)


@pytest.mark.slow
@pytest.mark.parametrize("case", SHORT, ids=lambda case: case.name)
def test_a_case_is_not_far_off(case):
    assert rate(case, 12).ok(errors=4)
