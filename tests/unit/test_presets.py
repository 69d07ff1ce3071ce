import pytest

from app.training.grid_expansion import build_product
from app.training.presets import PRESETS, Stage
from app.training.sweeps import SweepRequest
from isotropy.catalog import Regularizer


@pytest.mark.parametrize(
    ("stage", "words"),
    [
        (Stage.ISTAR_SEARCH, "3 numbers of epochs × 3 rates × 3 batch sizes × 1 baseline × 1 seed = 27 runs"),
        (Stage.ISTAR_TUNING, "(1 baseline + I-STAR × 7 λ × 4 ζ) × 1 seed = 29 runs"),
        (Stage.ISTAR_SEEDS, "(1 baseline + I-STAR × 1 λ) × 5 seeds = 10 runs"),
        (Stage.ISTAR_COSREG, "(1 baseline + CosReg × 1 λ) × 5 seeds = 10 runs"),
        (Stage.SHRINK_MRPC, "(1 baseline + persistent entropy × 1 λ × 2 kinds of bars) × 5 seeds = 15 runs"),
        (Stage.SHRINK_COLA, "(1 baseline + persistent entropy × 1 λ × 2 kinds of bars) × 5 seeds = 15 runs"),
    ],
)
def test_preset_requests_expected_runs(stage, words):
    needed = {"model": "m", "dataset_id": "d", "text_columns": ["a", "b"], "label_column": "c"}
    request = SweepRequest.model_validate(needed | PRESETS[stage].settings)
    swept = [regularizer for regularizer in request.regularizers if regularizer is not Regularizer.NONE]
    ranges = {**request.grid, "zeta": request.zetas}
    assert build_product(ranges, swept, frozenset(), request.lambdas, request.seeds).describe() == words


def test_presets_have_settings_of_papers():
    settings = {stage: preset.settings for stage, preset in PRESETS.items()}
    tuned = settings[Stage.ISTAR_TUNING]
    assert (tuned["lambdas"], tuned["zetas"]) == ([-5, -3, -1, 0.5, 1, 3, 5], [0.2, 0.4, 0.6, 0.8])
    assert [tuned[name] for name in ("accumulation", "precision", "schedule", "weight_decay")] == [
        2,
        "fp16",
        "constant",
        0,
    ]
    rates = [1e-5, 3e-5, 5e-5]
    searched = {"batch_size": [8, 16, 32], "epochs": [3, 4, 5], "learning_rate": rates}
    assert settings[Stage.ISTAR_SEARCH]["grid"] == searched
    paper_rates = {Stage.SHRINK_MRPC: (8e-5, 8e-6), Stage.SHRINK_COLA: (5e-5, 5e-6)}
    assert {
        paper_stage: (settings[paper_stage]["learning_rate"], settings[paper_stage]["weight_decay"])
        for paper_stage in paper_rates
    } == paper_rates
    shrink = settings[Stage.SHRINK_MRPC]
    assert (shrink["batch_size"], shrink["epochs"], shrink["optimizer"], shrink["warmup"]) == (64, 10, "adam", 0.1)


ISTAR = {Stage.ISTAR_TUNING, Stage.ISTAR_SEEDS}
TOKENS = ISTAR | {Stage.ISTAR_COSREG}
RUDMAN = TOKENS | {Stage.ISTAR_SEARCH}
KUDRIASHOV = {Stage.SHRINK_MRPC, Stage.SHRINK_COLA}


@pytest.mark.parametrize(
    ("sentence", "stages"),
    [
        ("ζ weighs the shrinkage covariance, as in Algorithm 1, the poster and the code; the text’s sec", ISTAR),
        ("Padding is not counted here. The code counts it among the tokens", TOKENS),
        ("Two batches are averaged into one step, as the paper says; the public code has no accumulation.", RUDMAN),
        ("Seeds also order the training rows; the code orders them by a seed that is always 0.", RUDMAN),
        ("over 10% of the steps, as in the code; then a constant rate, since the text names no decay.", KUDRIASHOV),
        ("The code has AdamW and a cosine.", KUDRIASHOV),
        ("The code keeps one bar too many.", KUDRIASHOV),
        ("other bars is left alone, as in the text; the code’s notebook makes them longer.", KUDRIASHOV),
    ],
)
def test_stages_state_where_paper_and_code_differ(sentence, stages):
    assert {stage for stage, preset in PRESETS.items() if sentence in " ".join(preset.differs)} == stages


def test_stages_set_options_they_state():
    settings = {stage: preset.settings for stage, preset in PRESETS.items()}
    for stage in KUDRIASHOV:
        assert (settings[stage]["optimizer"], settings[stage]["schedule"]) == ("adam", "constant")
        assert settings[stage]["entropy_cluster_weight"] == 0.0
    assert all(settings[stage]["accumulation"] == 2 for stage in RUDMAN)
    assert not any(settings[stage].get("include_padding") for stage in TOKENS)
    assert all(preset.models for preset in PRESETS.values())
