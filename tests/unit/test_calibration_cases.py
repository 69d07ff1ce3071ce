import pytest

from benchmarks import _calibration_clouds, _calibration_cutoffs, _calibration_tasks, _calibration_upgrade
from benchmarks._calibration import rate
from tests.long_cases import mark_long

CLOUDS, TASKS, UPGRADES = (module.cases() for module in (_calibration_clouds, _calibration_tasks, _calibration_upgrade))
CUTOFFS = _calibration_cutoffs.cases()
GENERATED = [case for case in CUTOFFS if "generated" in case.name]
SHORT = [case for case in CLOUDS if " x 20, 1/i, t5" in case.name or "copies" in case.name or "paired" in case.name]


@pytest.mark.parametrize("cases", [CLOUDS, TASKS, UPGRADES, CUTOFFS])
def test_cases_have_unique_names(cases):
    assert len({case.name for case in cases}) == len(cases)


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [*SHORT, *mark_long([*TASKS, *UPGRADES], [*TASKS[::6], *UPGRADES[1:2]].__contains__)],
    ids=lambda case: case.name,
)
def test_short_run_of_case_stays_near_its_bounds(case):
    assert rate(case, 12).ok(errors=4)


@pytest.mark.slow
@pytest.mark.parametrize("case", mark_long(GENERATED, GENERATED[::4].__contains__), ids=lambda case: case.name)
def test_cutoff_keeps_promise(case):
    assert rate(case, 60).ok(errors=3)


def test_cases_cover_grouped_and_separate_queries():
    assert {"apart" in case.name for case in TASKS} == {True, False}
