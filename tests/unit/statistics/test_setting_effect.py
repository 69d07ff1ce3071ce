from itertools import permutations, product

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from statsmodels.stats.anova import anova_lm

from app.results.statistics.setting_effect import ScoredRun, setting_effect


def layout(values, missing=(), block="a"):
    return tuple(
        ScoredRun(block, setting, seed, float(value))
        for (setting, seed), value in np.ndenumerate(values)
        if (setting, seed) not in missing
    )


VALUES = np.random.default_rng(2).normal(size=(3, 3)) + np.array([[0.0], [1.0], [2.0]]) + np.array([0.0, 5.0, 9.0])


def f_of(runs):
    frame = pd.DataFrame([run[1:] for run in runs], columns=["setting", "seed", "value"])
    return anova_lm(smf.ols("value ~ C(seed) + C(setting)", frame).fit()).loc["C(setting)"]


@pytest.mark.parametrize("missing", [(), [(0, 1)], [(0, 1), (2, 0)]])
def test_f_is_statsmodels_of_settings_after_seeds(missing):
    runs = layout(VALUES, missing)
    effect, expected = setting_effect(runs), f_of(runs)
    assert effect.f == pytest.approx(expected["F"])
    assert effect.degrees[0] == expected["df"]


@pytest.mark.parametrize("missing", [(), [(0, 1)]])
def test_p_counts_every_permutation_within_seeds(missing):
    runs = layout(VALUES, missing)
    seeds = [[run for run in runs if run.seed == seed] for seed in range(3)]
    null = []
    for orders in product(*(permutations([run.value for run in of_one]) for of_one in seeds)):
        moved = [
            run._replace(value=value)
            for of_one, order in zip(seeds, orders, strict=True)
            for run, value in zip(of_one, order, strict=True)
        ]
        null.append(setting_effect.__wrapped__(tuple(moved)).f if len(null) % 7 == 0 else None)
    effect = setting_effect(runs)
    assert effect.permutations == len(null)
    expected = [f_of(layout(VALUES, missing))["F"]]
    some = np.array([f for f in null if f is not None])
    assert effect.p == pytest.approx(np.mean(some >= expected[0] - 1e-9), abs=0.12)


def test_by_hand_of_two_settings_and_two_seeds_and_the_least_p_is_of_one_order():
    effect = setting_effect(layout([[1.0, 2.0], [3.0, 5.0]]))
    # Differences 2 and 3: t = 2.5 / .5 = 5, so F = 25; of four permutations two are as extreme.
    assert effect.f == pytest.approx(25)
    assert (effect.degrees, effect.p, effect.permutations, effect.smallest_p) == ((1, 1), 0.5, 4, 0.5)
    effect = setting_effect(layout([[0.0, 10.0, 20], [1.0, 11.0, 21.1], [2.0, 12.0, 22.0]]))
    assert effect.p == effect.smallest_p == pytest.approx(6 / 216)


def test_it_takes_two_seeds_and_something_that_differs_and_data_sets_are_not_compared():
    assert "two seeds" in setting_effect(layout([[1.0], [2.0], [3.0]])).reason
    assert "two seeds" in setting_effect(layout([[1.0, 2.0]])).reason
    assert "two seeds" in setting_effect(()).reason
    assert "same performance" in setting_effect(layout([[1.0, 2.0], [1.0, 2.0]])).reason
    small, great = layout(VALUES), layout(1000 * VALUES + 7, block="b")
    effect = setting_effect(small + great)
    assert effect.f == pytest.approx(setting_effect(small).f)
    assert effect.degrees == (4, 8)
