"""A short form of ``benchmarks.calibration``: fixed seeds, bounds widened by three binomial errors."""

import pytest

from benchmarks import _calibration_sweeps
from benchmarks._calibration import COVERAGE, LEVEL, Case, Rate, coverage, false_positives, rate, row

SIMULATIONS = 150
SHORT = (
    "relation, 5 λ x 5 seeds, effects 1, noise 0.3",
    "relation, 5 λ x 4 ζ x 3 seeds",
    "relation, two methods, 5 λ x 3 seeds",
    "settings differ, none does, 4 λ x 2 seeds",
    "any verdict of 2 λ, 3 seeds x 300 rows, seeds dominating",
    "any verdict of 2 λ, 3 seeds, no predictions",
    "difference in accuracy, 3 seeds x 300 rows, seeds dominating",
    "difference in accuracy, 3 seeds x 300 rows, rows dominating",
    "difference in Spearman, 3 seeds x 300 rows, rows dominating",
)
CASES = {case.name: case for case in _calibration_sweeps.cases()}


@pytest.mark.slow
@pytest.mark.parametrize("name", SHORT)
def test_rates_are_within_their_bounds(name):
    rates = rate(CASES[name], SIMULATIONS)
    assert rates.ok(errors=3), row(rates)


def test_names_are_unique_and_bounds_are_those_of_the_claims():
    cases = list(_calibration_sweeps.cases())
    assert len({case.name for case in cases}) == len(cases)
    assert all(case.high == (0.065 if "positives" in case.claim else case.high) for case in cases)
    assert {case.simulations for case in cases} == {2_000}


def test_a_rate_outside_its_bounds_is_not_ok_and_what_is_attainable_lowers_the_bound():
    case = coverage("a", lambda random: random.random() < 0.9, 400)
    assert (case.claim, case.low, case.high) == (COVERAGE, 0.925, 0.975)
    assert not Rate(case, 0.91, 400).ok()
    assert Rate(case, 0.91, 400).ok(errors=3)
    assert 0.8 < rate(case).rate < 0.97
    assert "**no**" in row(Rate(case, 0.5, 400))
    case = false_positives("b", lambda _: False, 10, attainable=0.0167)
    assert case.low == pytest.approx(0.00835)
    assert "| 0.017 |" in row(Rate(case, 0.01, 10))
    assert _calibration_sweeps.attainable_by_relation(5) == pytest.approx(2 / 120)
    assert _calibration_sweeps.attainable_by_relation(4) == 0
    assert _calibration_sweeps.attainable_by_effect(3, 3) == pytest.approx(1 / 36)
    assert isinstance(case, Case)
    assert LEVEL == 0.05
