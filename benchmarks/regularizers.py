"""A training step with each regularizer beside a plain one, at the shape of BERT-base, as a run makes it.

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
from benchmarks._rounds import interleave, machine, rounds_asked, table
from benchmarks._step import BATCH, TOKENS, Penalty, Step
from isotropy.catalog import REGULARIZERS, Regularizer
from isotropy.spectrum import Moments
from workers.training.penalties import make_penalties

THREADS = 2
ONE_SEED = {"text_columns": ["text"], "label_column": "label", "label_names": ["no", "yes"], "seed": 0}

WAYS: dict[str, dict[str, Any]] = {
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


def penalty_of(step: Step, settings: Mapping[str, Any]) -> Penalty:
    """Return what a run of these settings adds to its loss, all else as the papers have it."""
    penalties = make_penalties(RunConfig(model="bert", lam=-1.0, **ONE_SEED, **settings), step.model)
    if penalties is None:
        raise ValueError(f"expected settings that add something to the loss, got {settings}")
    penalties.to(step.model.device)
    if penalties.shrinking_istar is not None:
        # The values of the covariance make no difference to the time; those of a few tokens are soon had.
        moments = Moments(step.model.config.hidden_size, step.model.device)
        moments.update(step.model.get_input_embeddings().weight[:4096].detach())
        penalties.shrinking_istar.set_shrinkage(moments.covariance().float())

    def added(outputs: ModelOutput, batch: Mapping[str, Tensor]) -> Tensor:
        value: Tensor = penalties(outputs, batch, 0)
        return value

    return added


def main() -> None:
    """Print the medians of interleaved rounds and their ratios to the plain step."""
    torch.set_num_threads(THREADS)
    cuda = torch.cuda.is_available()
    step = Step(torch.device("cuda" if cuda else "cpu"), half=cuda)
    ways: dict[str, Callable[[], object]] = {"plain step": step.take}
    for name, settings in WAYS.items():
        ways[name] = partial(step.take, penalty_of(step, settings))
    times = interleave(ways, rounds_asked(), torch.cuda.synchronize if cuda else lambda: None)
    where = f"bfloat16, {torch.cuda.get_device_name()}" if cuda else f"float32, {THREADS} threads"
    print(machine("torch", "transformers"))
    print(f"BERT-base, {BATCH} x {TOKENS} tokens, no padding, {where}, {rounds_asked()} rounds\n")
    print(table(times, base="plain step"))


if __name__ == "__main__":
    main()
