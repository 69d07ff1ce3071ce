"""A short form of ``benchmarks.calibration``: fixed seeds, bounds widened by three binomial errors."""

from functools import cache

import numpy as np
import pytest

from benchmarks import _calibration_clouds, _calibration_cutoffs, _calibration_tasks, _calibration_upgrade
from benchmarks._calibration import COVERAGE, Rate, coverage, false_positives, rate, row
from benchmarks._calibration_cards import CASES as CASES_OF_CARDS
from benchmarks._calibration_cards import card_rates
from benchmarks._calibration_sweeps import attainable_by_relation, cases
from benchmarks._calibration_verdicts import CASES as CASES_OF_SWEEPS
from benchmarks._calibration_verdicts import EASE, verdict_rates
from benchmarks.outlier_limit import KINDS, LEVEL, CaseValues, simulate_case, statistic
from isotropy.cloud import read_cloud
from isotropy.findings import findings_of
from isotropy.findings.outlier_rows import LIMIT
from isotropy.rows import Rows
from tests.long_cases import mark_long

SIMULATIONS = 150
SHORT = (
    "relation, 5 λ x 5 seeds, effects 1, noise 0.3",
    "relation, 5 λ x 4 ζ x 3 seeds",
    "relation, two methods, 5 λ x 3 seeds",
)
CASES = {case.name: case for case in cases()}
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
    two_cases = (cases[f"cards, {name}"] for name in ("5 x 3, rows dominate", "7 x 5, rises by 3"))
    unrelated, rising = (card_rates(case, 25) for case in two_cases)
    assert unrelated.ok(errors=3), unrelated.row()
    assert rising.rates[-1] > 0.8, rising.row()


def test_ease_of_gain_raises_score_by_gain():
    case = CASES_OF_SWEEPS[0]
    ease = np.full(case.settings, EASE)
    moved = ease.copy()
    moved[-1] += case.ease_gain(0.1)
    assert (case.true_accuracy(moved) - case.true_accuracy(ease))[-1] == pytest.approx(0.1, abs=1e-6)


def test_cases_have_bounds_of_their_claim():
    assert all(case.high == 0.065 for case in CASES.values() if "positives" in case.claim)
    assert {case.simulations for case in CASES.values()} == {2_000}


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
    assert attainable_by_relation(5) == pytest.approx(2 / 120)
    assert attainable_by_relation(4) == 0


CLOUDS, TASKS, UPGRADES = (module.cases() for module in (_calibration_clouds, _calibration_tasks, _calibration_upgrade))
CUTOFFS = _calibration_cutoffs.cases()
GENERATED = [case for case in CUTOFFS if "generated" in case.name]
SHORT_CLOUDS = [
    case for case in CLOUDS if " x 20, 1/i, t5" in case.name or "copies" in case.name or "paired" in case.name
]


@pytest.mark.parametrize("cases", [[*cases()], CASES_OF_SWEEPS, CLOUDS, TASKS, UPGRADES, CUTOFFS])
def test_cases_have_unique_names(cases):
    assert len({case.name for case in cases}) == len(cases)


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [*SHORT_CLOUDS, *mark_long([*TASKS, *UPGRADES], [*TASKS[::6], *UPGRADES[1:2]].__contains__)],
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


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_healthy_clouds_stay_below_limit(kind):
    assert simulate_case(kind, 100, 8, simulations=60).share <= 1 / 60


@pytest.mark.parametrize("far", [1.0, 200.0])
def test_statistic_agrees_with_finding(far):
    x = np.random.default_rng(0).normal(size=(200, 4))
    x[17] *= far
    slugs = [finding.slug for finding in findings_of(read_cloud(Rows(x)))]
    assert (statistic(x) > LIMIT) == ("outlier_rows" in slugs) == (far > 1)


def test_exponential_tail_quantile_is_estimated():
    values = np.random.default_rng(0).exponential(size=20_000)
    assert CaseValues(KINDS[0], 1, 1, values).point == pytest.approx(-np.log(LEVEL), rel=0.05)
    mostly_zero = np.where(np.random.default_rng(1).random(20_000) < 0.02, values, 0)
    assert CaseValues(KINDS[0], 1, 1, mostly_zero).point == pytest.approx(np.log(0.02 / LEVEL), rel=0.15)
