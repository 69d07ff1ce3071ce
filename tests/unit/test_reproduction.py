import dataclasses
from pathlib import Path

import pytest

from app.training.sweeps import SweepRequest
from benchmarks._reproduced import BEGIN, END, Curve, Report, replace_section
from benchmarks._tasks import TASKS, Budget, request_sweep
from benchmarks.reproduction import budget_of, parse

DOCUMENT = Path(__file__).parents[2] / "docs" / "reproduction.md"
ENVIRONMENT = {
    "device_name": "a processor", "threads": 1, "platform": "Linux", "python": "3.11.7",
    "packages": {"torch": "2.13.0"},
}  # fmt: skip


def make_run(lam, seed, performance, status="finished", error=None):
    star = None if performance is None else 0.2 + lam / 10
    return {
        "lam": lam, "seed": seed, "performance": performance, "isoscore_star": star, "status": status, "error": error,
    }  # fmt: skip


CURVE = Curve(
    "m",
    "sst2",
    [make_run(lam, seed, 0.5 + lam / 10 + seed / 100) for lam in (0.0, -1.0) for seed in (0, 1)]
    + [make_run(1.0, 0, None, "failed", "Out of\nmemory.")],
    {
        "differences": [{"lam": -1.0, "estimate": -0.1, "low": -0.15, "high": -0.05, "verdict": "worse"}],
        "relation": {"spearman": 1.0, "p": None},
        "shape": "rising",
        "sentences": ["λ = −1 is worse.", "No more."],
    },
)


def test_curve_has_row_for_each_lambda():
    assert CURVE.rows() == [
        ["sst2", "−1", "0.100", "0.405", "2", "−0.100 (−0.150 to −0.050)", "worse"],
        ["sst2", "0", "0.200", "0.505", "2", "–", "plain training"],
        ["sst2", "1", "–", "–", "0", "–", "–"],
    ]
    assert CURVE.relation() == ["sst2 (accuracy)", "+1.00", "–", "rising", "−10.0", "BERT +0.25, ALBERT +0.00"]


def test_report_has_command_failures_and_conclusions():
    budget = Budget(models=("m",), tasks=("rte", "squad"), seeds=(0, 1), lambdas=(-3.0, 0.5), learning_rate=3e-5)
    text = Report(budget, [CURVE], [ENVIRONMENT, ENVIRONMENT]).markdown()
    assert "Runs that did not finish:\n\n- m, sst2, λ = 1, seed 0: failed. Out of memory.\n" in text
    assert text.count("Trained on a processor, 1 thread, Linux, Python 3.11.7, torch 2.13.0.") == 1
    assert text.endswith("\n\n- **sst2**: λ = −1 is worse.")
    assert budget_of(parse(text.splitlines()[1].split()[4:])) == budget


@pytest.mark.parametrize("name", TASKS)
def test_request_is_valid_sweep_named_by_settings(name):
    request = request_sweep(Budget(), "all-MiniLM-L6-v2", name, 3)
    assert SweepRequest.model_validate(request | {"dataset_id": "0" * 32}).seeds == [3]
    changed = request_sweep(dataclasses.replace(Budget(), epochs=4), "all-MiniLM-L6-v2", name, 3)
    assert request["name"] != changed["name"]
    assert request["name"] == request_sweep(Budget(seeds=(3, 9)), "all-MiniLM-L6-v2", name, 3)["name"]


def test_results_replace_text_between_markers():
    document = DOCUMENT.read_text("utf-8")
    once = replace_section(document, "first")
    assert once.split(BEGIN)[0] == document.split(BEGIN)[0]
    assert once.split(BEGIN)[1] == f"\n\nfirst\n\n{END}\n"
    assert replace_section(once, "second") == replace_section(document, "second")
    with pytest.raises(ValueError, match="expected a document with one line <!-- results"):
        replace_section("# Nothing", "text")
