import json
from pathlib import Path

import pytest

import app.playground
from workers.playground import gaussian_example

STORED = Path(app.playground.__file__).parent / "gaussian_example.json"


@pytest.fixture(scope="module")
def example():
    return json.loads(STORED.read_text())


@pytest.mark.long
@pytest.mark.slow
def test_stored_example_matches_code(example):
    document = gaussian_example()
    assert document.keys() == example.keys()
    for key in ("n", "draws", "drawn", "rows", "zetas", "reason"):
        assert document[key] == example[key], key
    assert document["full"] == pytest.approx(example["full"], abs=1e-4)
    for name in ("isoscore", "isoscore_unbiased"):
        assert document[name]["mean"] == pytest.approx(example[name]["mean"], abs=1e-4)
    for again, curve in zip(document["isoscore_star"], example["isoscore_star"], strict=True):
        assert again["mean"] == pytest.approx(curve["mean"], abs=1e-4)


def test_only_bias_corrected_score_finds_truth_in_few_rows(example):
    # The variances average 2 and their squares 14 / 3, so PR = 768 * 4 / (14 / 3).
    truth = (768 * 12 / 14 - 1) / 767
    assert example["truth"] == pytest.approx(truth, abs=1e-5)
    assert example["rows"][:-1] == [8 * 2**power for power in range(12)]
    at = example["rows"].index(64)
    assert example["isoscore"]["mean"][at] < 0.1
    assert example["isoscore_unbiased"]["mean"][at] == pytest.approx(truth, abs=0.05)
    assert example["full"]["isoscore_unbiased"] == pytest.approx(truth, abs=1e-3)
    # By the convention of the poster, 700 rows score 0.53 to 0.81 at zeta 0.2 to 0.8.
    below, above = (example["rows"].index(m) for m in (512, 1024))
    for curve, expected in zip(example["isoscore_star"], (0.53, 0.64, 0.74, 0.81), strict=True):
        assert curve["mean"][below] < expected + 0.02
        assert curve["mean"][above] > expected - 0.02
