import pytest

from app.training.grid_expansion import build_product
from isotropy.catalog import Regularizer

ISTAR, COSREG, ENTROPY, SPECTRUM = Regularizer.ISTAR, Regularizer.COSREG, Regularizer.ENTROPY, Regularizer.SPECTRUM


def make(ranges=None, regularizers=(ISTAR,), fixed=(), lambdas=(-1, 0, 1), seeds=(0,)):
    return build_product(ranges or {}, regularizers, frozenset(fixed), lambdas, seeds)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "(1 baseline + I-STAR × 2 λ) × 1 seed = 3 runs"),
        ({"regularizers": (), "seeds": (1, 2)}, "1 baseline × 2 seeds = 2 runs"),
        ({"lambdas": (0,)}, "1 baseline × 1 seed = 1 run"),
        ({"ranges": {"learning_rate": [1, 2], "zeta": [0.2, 0.4, 0.6]}, "regularizers": (COSREG, ISTAR)},
         "2 rates × (1 baseline + I-STAR × 2 λ × 3 ζ + CosReg × 2 λ) × 1 seed = 18 runs"),
        ({"regularizers": (ISTAR, COSREG, SPECTRUM), "ranges": {"epochs": [3]}, "seeds": range(5)},
         "(1 baseline + 3 methods × 2 λ) × 5 seeds = 35 runs"),
        ({"ranges": {"entropy_bars": ["prominent", "all"]}, "regularizers": (ENTROPY,), "lambdas": (1,)},
         "(1 baseline + persistent entropy × 1 λ × 2 kinds of bars) × 1 seed = 3 runs"),
        ({"ranges": {"entropy_bars": ["prominent", "all"]}, "fixed": (ENTROPY,)},
         "2 kinds of bars × (1 baseline + I-STAR × 2 λ) × 1 seed = 6 runs"),
        ({"ranges": {"zeta": [0.2, 0.4]}, "regularizers": (COSREG,), "fixed": (ISTAR,)},
         "2 ζ × (1 baseline + CosReg × 2 λ) × 1 seed = 6 runs"),
    ],
)  # fmt: skip
def test_described_count_equals_number_of_runs(arguments, words):
    factors = make(**arguments)
    assert factors.describe() == words
    runs = [tuple(sorted(run.items())) for run in factors.run_settings()]
    assert len(runs) == len(set(runs)) == factors.total


def test_each_setting_and_seed_starts_with_its_baseline():
    runs = list(make({"batch_size": [8, 16]}, lambdas=(1,), seeds=(4, 2)).run_settings())
    baselines = [(run["batch_size"], run["seed"]) for run in runs[::2]]
    assert baselines == [(8, 4), (8, 2), (16, 4), (16, 2)]
    assert {run["regularizer"] for run in runs[::2]} == {Regularizer.NONE}
    assert {(run["regularizer"], run["lam"]) for run in runs[1::2]} == {(ISTAR, 1)}
