"""Cost of training: operations of a model, padded tokens of batches, seconds of a step on a timed machine."""

from collections.abc import Sequence

from pydantic import BaseModel

# A forward pass, plus a backward pass at twice its cost.
TRAINING_PASSES = 3
LAYER_PASSES = 6.0
"""Time of a layer outside its matrix products, in elementwise passes as ``MachineSpeed`` times them.

Fitted to BERT at widths 384 to 1024, batches of 16 to 32 texts of 32 to 256 tokens, on 16 cores and on an H100.
"""


class MachineSpeed(BaseModel):
    """Timings of a worker's device, taken when the worker starts."""

    device_name: str
    # Operations per second of a large matrix product, by precision.
    products: dict[str, float]
    # Seconds of GELU, norm and dropout, forward and backward, per element of a hidden state.
    element_seconds: float
    # Seconds of a forward and backward pass of one tiny layer. It is all overhead of calls, which bounds small models.
    layer_seconds: float


class ModelSize(BaseModel):
    """Sizes read from a model's configuration and the header of its weights."""

    layers: int
    width: int
    parameters: int
    # Weights of all matrices except embeddings.
    matrix_weights: int
    # Longest input; None if unknown.
    positions: int | None = None

    def forward_operations(self, tokens: float, length: float) -> float:
        """Return the operations of a forward pass over ``tokens`` tokens in texts of ``length`` tokens each."""
        return tokens * (2 * self.matrix_weights + 4 * self.layers * self.width * length)


def expected_longest(lengths: Sequence[int], batch_size: int) -> float:
    """Return the expected length of the longest of ``batch_size`` texts drawn at random. A batch is padded to it."""
    n = len(lengths)
    return sum(
        length * (((rank + 1) / n) ** batch_size - (rank / n) ** batch_size)
        for rank, length in enumerate(sorted(lengths))
    )


def step_seconds(model: ModelSize, speed: MachineSpeed, precision: str, tokens: float, length: float) -> float | None:
    """Return the estimated seconds of a step over ``tokens`` in texts of ``length``; None if none was timed."""
    if precision not in speed.products:
        return None
    product_seconds = TRAINING_PASSES * model.forward_operations(tokens, length) / speed.products[precision]
    elementwise_seconds = LAYER_PASSES * tokens * model.layers * model.width * speed.element_seconds
    return max(product_seconds + elementwise_seconds, model.layers * speed.layer_seconds)
