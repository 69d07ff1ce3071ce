"""A short form of ``benchmarks.calibration``: fixed seeds, bounds widened by three binomial errors."""

from functools import cache

import numpy as np
import pytest

from benchmarks import _calibration_sweeps
from benchmarks._calibration import COVERAGE, LEVEL, Case, Rate, coverage, false_positives, rate, row
from benchmarks._calibration_cards import CASES as CASES_OF_CARDS
from benchmarks._calibration_cards import card_rates
from benchmarks._calibration_verdicts import CASES as CASES_OF_SWEEPS
from benchmarks._calibration_verdicts import EASE, verdict_rates
from tests.long_cases import mark_long

SIMULATIONS = 150
SHORT = (
    "relation, 5 λ x 5 seeds, effects 1, noise 0.3",
    "relation, 5 λ x 4 ζ x 3 seeds",
    "relation, two methods, 5 λ x 3 seeds",
)
CASES = {case.name: case for case in _calibration_sweeps.cases()}
SWEEPS = {case.name: case for case in CASES_OF_SWEEPS}


@pytest.mark.slow
@pytest.mark.parametrize("name", SHORT)
def test_rates_stay_within_bounds(name):
    rates = rate(CASES[name], SIMULATIONS)
    assert rates.ok(errors=3), row(rates)


SHORT_SWEEPS = ("5 x 3, equal variances", "5 x 3, baseline 4x noisier", "5 x 3, rows dominate")


@cache
def short_rates(name):
    return verdict_rates(SWEEPS[name], 60)


@pytest.mark.slow
@pytest.mark.parametrize("name", mark_long(SHORT_SWEEPS, SHORT_SWEEPS[0].__eq__))
def test_verdicts_have_more_power_than_earlier_rule(name):
    rates_of_case = short_rates(name)
    assert rates_of_case.ok(errors=3), rates_of_case.row()
    assert all(
        now > before for now, before in zip(rates_of_case.power[1:], rates_of_case.earlier_power[1:], strict=True)
    ), rates_of_case.row()


@pytest.mark.long
@pytest.mark.slow
def test_third_look_has_more_power_than_first():
    first, third = map(short_rates, ("5 x 3, equal variances", "5 x 3, 3 and 6 seeds added, three looks"))
    assert third.ok(errors=3), third.row()
    assert third.power[0] > first.power[1] + 0.1  # both are of 2 standard deviations


@pytest.mark.slow
def test_cards_report_relation_and_few_false_ones():
    cases = {case.name: case for case in CASES_OF_CARDS}
    unrelated, rising = (
        card_rates(cases[f"cards, {name}"], 25) for name in ("5 x 3, rows dominate", "7 x 5, rises by 3")
    )
    assert unrelated.ok(errors=3), unrelated.row()
    assert rising.rates[-1] > 0.8, rising.row()


def test_sweep_cases_have_unique_names():
    assert len(SWEEPS) == len(CASES_OF_SWEEPS)


def test_ease_of_gain_raises_score_by_gain():
    case = CASES_OF_SWEEPS[0]
    ease = np.full(case.settings, EASE)
    moved = ease.copy()
    moved[-1] += case.ease_gain(0.1)
    assert (case.true_accuracy(moved) - case.true_accuracy(ease))[-1] == pytest.approx(0.1, abs=1e-6)


def test_cases_have_unique_names_and_bounds_of_their_claim():
    cases = list(_calibration_sweeps.cases())
    assert len({case.name for case in cases}) == len(cases)
    assert all(case.high == (0.065 if "positives" in case.claim else case.high) for case in cases)
    assert {case.simulations for case in cases} == {2_000}


def test_rate_outside_bounds_fails_and_attainable_rate_lowers_bound():
    case = coverage("a", lambda random: random.random() < 0.9, 400)
    assert (case.claim, case.low, case.high) == (COVERAGE, 0.925, 0.975)
    assert not Rate(case, 0.91, 400).ok()
    assert Rate(case, 0.91, 400).ok(errors=3)
    assert 0.8 < rate(case).rate < 0.97
    assert "| 0.500 **outside** |" in row(Rate(case, 0.5, 400))
    case = false_positives("b", lambda _: False, 10, attainable=0.0167)
    assert case.low == pytest.approx(0.00835)
    assert "| 0.017 |" in row(Rate(case, 0.01, 10))
    assert _calibration_sweeps.attainable_by_relation(5) == pytest.approx(2 / 120)
    assert _calibration_sweeps.attainable_by_relation(4) == 0
    assert isinstance(case, Case)
    assert LEVEL == 0.05
