"""Time a training step with each regularizer, compared with a plain step, in the shape of BERT-base.

Run: python -m benchmarks.regularizers
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor
from transformers.utils.generic import ModelOutput

from app.db.config import RunConfig
from app.db.options.regularization import Bars
from app.db.options.training import Precision
from benchmarks._rounds import interleave, machine, requested_rounds, table
from benchmarks._step import BATCH, STEPS_PER_ROUND, TOKENS, Penalty, Step
from isotropy.catalog import REGULARIZERS, Regularizer
from isotropy.spectrum import Moments
from workers.training.penalties import make_penalties

THREADS = 2
RUN_FIELDS = {"text_columns": ["text"], "label_column": "label", "label_names": ["no", "yes"], "seed": 0}

SETTINGS_BY_NAME: dict[str, dict[str, Any]] = {
    **{penalty.name: {"regularizer": name} for name, penalty in REGULARIZERS.items()},
    f"{REGULARIZERS[Regularizer.ISTAR].name}, a quarter of the tokens": {
        "regularizer": Regularizer.ISTAR,
        "token_fraction": 0.25,
    },
    f"{REGULARIZERS[Regularizer.ENTROPY].name}, all bars, classes together": {
        "regularizer": Regularizer.ENTROPY,
        "entropy_bars": Bars.ALL,
        "entropy_by_label": False,
    },
}


def make_penalty(step: Step, settings: Mapping[str, Any]) -> Penalty:
    """Return the penalty of a run with these settings, and the papers' defaults otherwise."""
    precision = Precision.BF16 if step.half else Precision.FP32
    config = RunConfig(model="bert", lam=-1.0, precision=precision, **RUN_FIELDS, **settings)
    penalties = make_penalties(config, step.model)
    if penalties is None:
        raise ValueError(f"expected settings that add something to the loss, got {settings}")
    penalties.to(step.model.device)
    if penalties.shrinking_istar is not None:
        # The values of the covariance do not affect the time, so a few tokens are enough.
        moments = Moments(step.model.config.hidden_size, step.model.device)
        moments.update(step.model.get_input_embeddings().weight[:4096].detach())
        penalties.shrinking_istar.set_shrinkage(moments.covariance().float())

    def penalty(outputs: ModelOutput, batch: Mapping[str, Tensor]) -> Tensor:
        value: Tensor = penalties(outputs, batch, 0)
        return value

    return penalty


def main() -> None:
    """Print the medians of interleaved rounds and their ratios to the plain step."""
    torch.set_num_threads(THREADS)
    has_cuda = torch.cuda.is_available()
    step = Step(torch.device("cuda" if has_cuda else "cpu"), half=has_cuda)
    functions: dict[str, Callable[[], object]] = {"plain step": step.take_several}
    for name, settings in SETTINGS_BY_NAME.items():
        functions[name] = partial(step.take_several, make_penalty(step, settings))
    times = interleave(functions, requested_rounds(), torch.cuda.synchronize if has_cuda else lambda: None)
    device = f"bfloat16, {torch.cuda.get_device_name()}" if has_cuda else f"float32, {THREADS} threads"
    print(machine("torch", "transformers"))
    shape = f"BERT-base, {BATCH} x {TOKENS} tokens, no padding, {device}"
    print(f"{shape}, {requested_rounds()} rounds of {STEPS_PER_ROUND} steps\n")
    print(table(times, base="plain step"))
    if has_cuda:
        print("\n| | GiB allocated at most |\n|---|---|")
        for name, take in functions.items():
            torch.cuda.reset_peak_memory_stats()
            take()
            print(f"| {name} | {torch.cuda.max_memory_allocated() / 2**30:.2f} |")


if __name__ == "__main__":
    main()
