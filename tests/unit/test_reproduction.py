from pathlib import Path

import pytest

from app.training.sweeps import SweepRequest
from benchmarks._report import BEGIN, END, Check, Report, replace_section
from benchmarks._results import Result, anisotropy_table, cost_table, count_pairs, method_table, result_of, sweep_table
from benchmarks._tasks import CHECK, OTHERS, STEERING, TASKS, Budget, requests_for
from benchmarks.reproduction import budget_of, parse
from isotropy.catalog import Regularizer

DOCUMENT = Path(__file__).parents[2] / "docs" / "reproduction.md"
NONE, ISTAR, UNBIASED, COSREG = Regularizer.NONE, Regularizer.ISTAR, Regularizer.UNBIASED, Regularizer.COSREG


def result(regularizer, lam, star, *, task="sst2", part=STEERING, seed=0, performance=0.5, seconds=10.0, shares=0.25):
    measures = [f"anisotropy_{kind}_1" for kind in ("raw", "centred")]
    return Result(
        task, part, regularizer, lam, seed, performance, star, star, seconds, 10, dict.fromkeys(measures, shares)
    )


SWEEP = [
    result(NONE, 0.0, 0.2),
    result(NONE, 0.0, 0.2, part=OTHERS, seconds=8.0),
    result(ISTAR, -1.0, 0.1, seconds=15.0),
    result(ISTAR, 1.0, 0.4, seconds=13.0),
    result(UNBIASED, -1.0, 0.3, seconds=12.0),
    result(UNBIASED, 1.0, None, seconds=11.0),
    result(COSREG, 1.0, 0.25, part=OTHERS, seconds=8.5),
    result(NONE, 0.0, 0.9, part=CHECK, performance=0.9),
]


def test_method_table_averages_seeds_and_counts_plain_runs_once():
    rows = method_table([*SWEEP, result(ISTAR, 1.0, 0.6, seed=1, performance=0.7)], {"sst2": "accuracy"}).splitlines()
    assert rows == [
        "| task | none | I-STAR, λ = −1 | I-STAR, λ = 1 | bias-corrected I-STAR, λ = 1 | CosReg, λ = 1 "
        "| persistent entropy, λ = 1 |",
        "| --- | --- | --- | --- | --- | --- | --- |",
        "| sst2 (accuracy) | 0.500, 0.200 | 0.500, 0.100 | 0.600 ± 1.271, 0.500 ± 1.271 | 0.500, – | 0.500, 0.250 "
        "| –, – |",
    ]


def test_sweep_table_counts_rises_and_skips_undefined_values():
    assert sweep_table(SWEEP, ["sst2"], lambda row: row.isoscore_star).splitlines() == [
        "| task | method | λ = −1 | λ = 0 | λ = 1 | −1 to 1 | rises |",
        "| --- | --- | --- | --- | --- | --- | --- |",
        "| sst2 | I-STAR | 0.100 | 0.200 | 0.400 | +0.300 | 2 of 2 |",
        "| sst2 | bias-corrected I-STAR | 0.300 | 0.200 | – | – | 0 of 1 |",
    ]


def test_cost_is_relative_to_plain_run_of_same_sweep():
    rows = ["| I-STAR | 2 | 400 | 1.40 |", "| bias-corrected I-STAR | 2 | 150 | 1.15 |", "| CosReg | 1 | 50 | 1.06 |"]
    assert cost_table(SWEEP).splitlines()[2:] == rows
    row = anisotropy_table(SWEEP, {"sst2": "accuracy"}).splitlines()[2]
    assert row.startswith("| sst2 | 0.250, 0.250 | 0.250, 0.250 |")
    assert count_pairs(SWEEP) == (1, 1)
    assert count_pairs([*SWEEP, result(NONE, 0.0, 0.2, seed=1), result(NONE, 0.0, 0.3, seed=1, part=OTHERS)]) == (2, 1)


def test_result_is_read_from_api_run():
    layers = {f"anisotropy_{kind}_1": [0.9, 0.3] for kind in ("raw", "centred")}
    zeros = {measure: [0.0, 0.0] for measure in layers}
    run = {
        "regularizer": "cosreg", "lam": 1.0, "seed": 3, "performance": None, "isoscore_star": 0.5,
        "results": {"by_layer": {"isoscore_unbiased": {"values": [0.25, None, 0.5]}}},
        "started_at": "2026-01-01T00:00:59.500000Z", "finished_at": "2026-01-01T00:01:02Z",
        "steps": [{"step": step, "layers": values} for step, values in ((0, zeros), (3, layers), (4, None))],
    }  # fmt: skip
    read = result_of("rte", OTHERS, run)
    assert (read.regularizer, read.seed, read.performance, read.seconds, read.steps) == (COSREG, 3, None, 2.5, 4)
    assert (read.isoscore_unbiased, read.anisotropy["anisotropy_centred_1"]) == (0.375, 0.3)


@pytest.mark.parametrize("name", TASKS)
def test_requests_are_valid_sweeps_named_by_settings(name):
    requests, changed_requests = requests_for(name, Budget()), requests_for(name, Budget(max_steps=61))
    assert set(requests) == ({STEERING, OTHERS} if name == "squad" else {STEERING, OTHERS, CHECK})
    for part, request in requests.items():
        sweep = SweepRequest.model_validate(request | {"dataset_id": "0" * 32})
        steering = [-3, -1, 1, 3] if name in Budget().sweeps else [-1, 1]
        assert sweep.lambdas == {STEERING: steering, OTHERS: [1], CHECK: [0]}[part]
        assert request["max_steps"] == {"cola": 240}.get(name, 60)
        assert request["name"] != changed_requests[part]["name"]
        assert request["name"] == requests_for(name, Budget())[part]["name"]


def test_report_command_reproduces_budget():
    budget = Budget(seeds=(0, 1), sweeps=(), lambdas=(-3.0, 0.5), learning_rate=3e-5)
    command = Report(budget, ["rte", "squad"]).command()
    arguments = parse(command.split()[4:])
    assert budget_of(arguments) == budget
    assert arguments.tasks == ["rte", "squad"]


def test_report_lists_failed_runs_and_checks():
    environment = {
        "device_name": "a processor", "threads": 1, "platform": "Linux", "python": "3.11.7",
        "packages": {"torch": "2.13.0"},
    }  # fmt: skip
    checks = [Check("sst2", "accuracy", 872, 0.75, 0.75)]
    failed = ["sst2, entropy, λ = 1, seed 0: failed. Out of memory."]
    text = Report(Budget(), ["sst2"], SWEEP, checks, failed, [environment, environment]).markdown()
    assert "1 runs did not finish" not in text
    assert "One run did not finish and is left out:\n\n- sst2, entropy, λ = 1, seed 0: failed. Out of memory." in text
    assert "| sst2 | accuracy | 872 | 0.750000 | 0.750000 |" in text
    assert text.count("Trained on a processor, 1 threads, Linux, Python 3.11.7, torch 2.13.0.") == 1
    assert "1 of 1 pairs are equal" in text


def test_results_replace_text_between_markers():
    document = DOCUMENT.read_text("utf-8")
    once = replace_section(document, "first")
    assert once.split(BEGIN)[0] == document.split(BEGIN)[0]
    assert once.split(BEGIN)[1] == f"\n\nfirst\n\n{END}\n"
    assert replace_section(once, "second") == replace_section(document, "second")
    with pytest.raises(ValueError, match="expected a document with one line <!-- results"):
        replace_section("# Nothing", "text")
