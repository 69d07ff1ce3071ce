import sys
from datetime import UTC, datetime, timedelta

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoModelForSequenceClassification

from app.core.process import bundled_folder
from app.core.training_cost import MachineSpeed, ModelSize, expected_longest, step_seconds
from app.db.models import Phase, RunStatus
from app.training.models import read_model_size
from app.training.queue_status import estimate_seconds_left
from tests.factories import run_row
from workers.speed import measure_speed


@pytest.fixture(scope="module")
def model_folders(models_dir):
    return {path.name: path for path in models_dir.iterdir()} | {"minilm": bundled_folder()}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["minilm", "tiny-bert", "tiny-gpt2", "tiny-albert", "tiny-distilbert"])
def test_formula_counts_the_operations_of_a_step(model_folders, name):
    # The counter leaves out fused attention on a CPU.
    options = {"attn_implementation": "eager"}
    model = AutoModelForSequenceClassification.from_pretrained(model_folders[name], **options).eval()
    model.config.pad_token_id = 0
    size = read_model_size(model_folders[name])
    rows, length = 4, 48
    ids = torch.randint(1, 18, (rows, length))
    with FlopCounterMode(display=False) as counter:
        model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits.sum().backward()
    operations = 3 * size.forward_operations(rows * length, length)
    sys.stdout.write(f"{name}: formula over counted operations {operations / counter.get_total_flops():.3f}" + "\n")
    assert operations == pytest.approx(counter.get_total_flops(), rel=0.2)
    assert size.parameters == pytest.approx(sum(p.numel() for p in model.base_model.parameters()), rel=0.2)


def test_expected_longest_matches_enumeration():
    assert expected_longest([5, 3, 9], 1) == pytest.approx(17 / 3)
    assert expected_longest([1, 2], 2) == pytest.approx(1 / 4 + 2 * 3 / 4)
    assert expected_longest([4, 7, 7, 2], 1000) == pytest.approx(7)


# Seconds of a step timed with plain PyTorch on 16 cores of a Xeon and on an H100, batch x tokens.
XEON = MachineSpeed(
    device_name="Xeon", products={"fp32": 1.21e12, "bf16": 3.39e12}, element_seconds=1.24e-8, layer_seconds=1.19e-3
)
H100 = MachineSpeed(
    device_name="H100", products={"fp32": 5.16e13, "bf16": 7.75e14}, element_seconds=5.43e-11, layer_seconds=2.51e-3
)
MINILM = ModelSize(layers=6, width=384, parameters=22_700_000, matrix_weights=10_764_288)
BASE = ModelSize(layers=12, width=768, parameters=109_500_000, matrix_weights=85_524_480)
LARGE = ModelSize(layers=24, width=1024, parameters=335_000_000, matrix_weights=303_038_464)


@pytest.mark.parametrize(
    ("model", "speed", "precision", "rows", "length", "seconds"),
    [
        (MINILM, XEON, "fp32", 16, 32, 0.1588),
        (MINILM, XEON, "fp32", 32, 64, 0.4286),
        (MINILM, XEON, "fp32", 32, 128, 0.8924),
        (MINILM, XEON, "bf16", 32, 128, 1.1171),
        (BASE, XEON, "fp32", 16, 32, 0.6169),
        (BASE, XEON, "fp32", 32, 128, 4.4164),
        (BASE, XEON, "bf16", 32, 128, 3.4179),
        (MINILM, H100, "bf16", 16, 32, 0.0144),
        (MINILM, H100, "fp32", 32, 256, 0.0226),
        (BASE, H100, "bf16", 32, 128, 0.0323),
        (BASE, H100, "fp32", 32, 256, 0.1132),
        (LARGE, H100, "bf16", 32, 256, 0.0635),
        (LARGE, H100, "fp32", 32, 256, 0.3520),
    ],
)
def test_step_estimate_is_within_factor_of_two(model, speed, precision, rows, length, seconds):
    estimate = step_seconds(model, speed, precision, rows * length, length)
    sys.stdout.write(f"{precision} {rows} x {length}: estimated over timed {estimate / seconds:.2f}" + "\n")
    assert seconds / 2 < estimate < 2 * seconds


@pytest.mark.slow
def test_measure_speed_times_trainable_precisions():
    speed = measure_speed(torch.device("cpu"), "a processor")
    assert speed.products.keys() == {"fp32", "bf16"}
    assert min(*speed.products.values(), speed.element_seconds, speed.layer_seconds) > 0
    assert step_seconds(MINILM, speed, "fp16", 512, 32) is None


NOW = datetime(2026, 1, 1, tzinfo=UTC)


def run(status, began=None, ended=None, rested=0.0, step=0):
    """Return a run that started ``began`` and ended ``ended`` seconds ago."""
    seconds_ago = {"started_at": began, "finished_at": ended}
    times = {name: None if ago is None else NOW - timedelta(seconds=ago) for name, ago in seconds_ago.items()}
    progress = {"phase": Phase.TRAINING, "phase_done": step, "phase_total": 100}
    return run_row(status=status, rested_seconds=rested, **progress, **times)


FINISHED = run(RunStatus.FINISHED, 200, 100)
QUEUED = run(RunStatus.QUEUED)


@pytest.mark.parametrize(
    ("runs", "workers", "seconds"),
    [
        ([FINISHED, QUEUED, QUEUED], 1, 200),
        ([FINISHED, QUEUED, QUEUED], 2, 100),
        ([FINISHED, QUEUED], 8, 100),
        ([FINISHED, run(RunStatus.RUNNING, 30), QUEUED], 1, 170),
        ([FINISHED, run(RunStatus.RUNNING, 30)], 4, 70),
        ([FINISHED, run(RunStatus.RUNNING, 500), QUEUED], 1, 100),
        ([FINISHED, run(RunStatus.RUNNING, 180, step=90)], 1, 20),
        ([FINISHED, run(RunStatus.RUNNING, 60, step=9)], 1, 40),
        ([run(RunStatus.RUNNING, 50, step=25), QUEUED], 1, 350),
        ([run(RunStatus.FINISHED, 200, 100, rested=40), QUEUED], 1, 60),
    ],
)
def test_remaining_runs_take_mean_time_of_finished_runs(runs, workers, seconds):
    assert estimate_seconds_left(runs, workers, NOW) == seconds


@pytest.mark.parametrize(
    ("runs", "workers"),
    [
        ([QUEUED], 1), ([run(RunStatus.RUNNING, 50)], 1), ([FINISHED, QUEUED], 0), ([FINISHED], 1),
        ([FINISHED, run(RunStatus.PAUSED)], 1), ([FINISHED, run(RunStatus.RUNNING, 500)], 1),
    ],
)  # fmt: skip
def test_time_left_is_unknown_without_evidence(runs, workers):
    assert estimate_seconds_left(runs, workers, NOW) is None
