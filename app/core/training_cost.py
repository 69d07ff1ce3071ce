"""What training costs: operations of a model, padded tokens of batches, seconds of a step on a timed machine."""

from collections.abc import Sequence

from pydantic import BaseModel

TRAINING_PASSES = 3
"""A step is a forward pass, and a backward pass of twice its operations."""
LAYER_PASSES = 6.0
"""Passes over a layer's hidden states, as ``MachineSpeed`` times one, that take what its products do not.

Fitted to BERT at widths 384 to 1024, batches of 16 to 32 texts of 32 to 256 tokens, on 16 cores and on an H100.
"""


class MachineSpeed(BaseModel):
    """Timed by a worker on its device, as it starts."""

    device_name: str
    products: dict[str, float]
    """Operations per second of a large matrix product, by precision."""
    element_seconds: float
    """Of GELU, norm and dropout, forward and backward, for each number of a hidden state."""
    layer_seconds: float
    """Forward and backward pass of one tiny layer: the time of its calls alone, which bounds small models."""


class ModelSize(BaseModel):
    """Read from a model's configuration and the header of its weights."""

    layers: int
    width: int
    parameters: int
    matrix_weights: int
    """Weights that every token is multiplied by: all matrices but embeddings."""
    positions: int | None = None
    """Longest input; None where the configuration does not say."""

    def forward_operations(self, tokens: float, length: float) -> float:
        """Return the operations of a forward pass over ``tokens`` tokens in sequences of ``length``."""
        return tokens * (2 * self.matrix_weights + 4 * self.layers * self.width * length)


def expected_longest(lengths: Sequence[int], batch_size: int) -> float:
    """Return the expected length of the longest of ``batch_size`` texts drawn at random: a batch is padded to it."""
    n = len(lengths)
    return sum(
        length * (((rank + 1) / n) ** batch_size - (rank / n) ** batch_size)
        for rank, length in enumerate(sorted(lengths))
    )


def step_seconds(model: ModelSize, speed: MachineSpeed, precision: str, tokens: float, length: float) -> float | None:
    """Return the seconds of a step over ``tokens`` padded tokens; None in a precision that was not timed."""
    if precision not in speed.products:
        return None
    products = TRAINING_PASSES * model.forward_operations(tokens, length) / speed.products[precision]
    elements = LAYER_PASSES * tokens * model.layers * model.width * speed.element_seconds
    return max(products + elements, model.layers * speed.layer_seconds)
