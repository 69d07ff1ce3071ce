"""Gaussian calibration: a small normalizing flow trained on points (after BERT-flow, Li et al. 2020).

The flow starts as PCA whitening. Steps of Glow (Kingma & Dhariwal 2018) follow: an affine map of each dimension, a
random permutation, and an affine coupling, in which half of the dimensions scale and shift the others through a hidden
layer. Maximum likelihood, log N(f(x); 0, I) + log |det df/dx|, makes the images Gaussian. The whitening start and early
stopping on a tenth of the points are ours. Skew of a dimension that depends on no other is hardly reduced.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from isotropy.postprocess.components import principal_components
from isotropy.postprocess.fitted import FittedMap, require_finite, require_fit_points
from isotropy.spectrum import CHUNK_ROWS


@dataclass(frozen=True, eq=False)
class Flow(FittedMap):
    """An invertible map of d dimensions in K steps; in each, c = d // 2 dimensions scale and shift the other d - c."""

    SHAPES: ClassVar = {
        "mean": "d",
        "rotation": "d d",
        "scale": "d",
        "permutations": "K d",
        "log_scale": "K d",
        "shift": "K d",
        "inner": "K hidden c",
        "inner_bias": "K hidden",
        "outer": "K 2(d-c) hidden",
        "outer_bias": "K 2(d-c)",
    }

    rotation: Tensor  # [d, d] float64: principal directions in columns, completed to a basis
    scale: Tensor  # [d] float64, scales each direction to variance 1; those without variance by the smallest factor
    permutations: Tensor  # [K, d] int64
    log_scale: Tensor  # [K, d]; from here on float64 after training, float32 before
    shift: Tensor  # [K, d]
    inner: Tensor  # [K, hidden, c]
    inner_bias: Tensor  # [K, hidden]
    outer: Tensor  # [K, 2 (d - c), hidden]: log-scales, then shifts
    outer_bias: Tensor  # [K, 2 (d - c)]

    @classmethod
    def _sizes(cls, d: int) -> dict[str, int]:
        c = d // 2
        return {"d": d, "c": c, "2(d-c)": 2 * (d - c)}

    def _map(self, x: Tensor) -> Tensor:
        return self.transform(x)[0]

    def transform(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the images [m, d] of float64 points [m, d] and log |det df/dx| [m]; gradients flow through."""
        z, log_det = self.apply_steps(self.whiten(x))
        return z, log_det + self.scale.log().sum()

    @torch.no_grad()
    def inverse(self, images: Tensor) -> Tensor:
        """Return the points [m, d] of images [m, d]; dtypes and errors as in ``apply``."""
        return self._map_blocks(images, lambda z: self._invert_steps(z) / self.scale @ self.rotation.T + self.mean)

    @torch.no_grad()
    def log_likelihood(self, points: Tensor) -> Tensor:
        """Return the log-density of points [m, d] under the flow, in nats, float64 [m]; errors as in ``apply``."""
        require_finite(points, len(self.mean))
        blocks = (self.transform(block.double()) for block in torch.split(points, CHUNK_ROWS))
        return torch.cat([gaussian_log_density(z) + log_det for z, log_det in blocks])

    def whiten(self, x: Tensor) -> Tensor:
        """Return the whitened points [m, d] of float64 points [m, d], which ``apply_steps`` takes."""
        return (x - self.mean) @ self.rotation * self.scale

    def apply_steps(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Return the images [m, d] of whitened points [m, d] and the log-determinant [m] of the steps."""
        c = z.shape[1] // 2
        log_det = z.new_zeros(len(z))
        for step, permutation in enumerate(self.permutations):
            z = (z * self.log_scale[step].exp() + self.shift[step])[:, permutation]
            log_scale, shift = self._coupling(step, z[:, :c])
            z = torch.cat([z[:, :c], z[:, c:] * log_scale.exp() + shift], dim=1)
            log_det = log_det + self.log_scale[step].sum() + log_scale.sum(1)
        return z, log_det

    def _invert_steps(self, z: Tensor) -> Tensor:
        c = z.shape[1] // 2
        for step in reversed(range(len(self.permutations))):
            log_scale, shift = self._coupling(step, z[:, :c])
            z = torch.cat([z[:, :c], (z[:, c:] - shift) * (-log_scale).exp()], dim=1)
            z = (z[:, self.permutations[step].argsort()] - self.shift[step]) * (-self.log_scale[step]).exp()
        return z

    def _coupling(self, step: int, first_half: Tensor) -> tuple[Tensor, Tensor]:
        """Return log-scales in [-1, 1] and shifts [m, d - c] computed from the first half [m, c] of the dimensions."""
        hidden = torch.relu(first_half @ self.inner[step].T + self.inner_bias[step])
        log_scale, shift = (hidden @ self.outer[step].T + self.outer_bias[step]).chunk(2, dim=1)
        return log_scale.tanh(), shift


def gaussian_log_density(z: Tensor) -> Tensor:
    """Return the log-density [m] of points [m, d] under N(0, I), in nats."""
    return -0.5 * (z.square().sum(1) + z.shape[1] * math.log(2 * math.pi))


BATCH_ROWS = 256
CHECK_STEPS = 20  # Steps between checks of the validation loss
PATIENT_CHECKS = 5  # Checks without improvement after which training stops
TRAINED_PARAMETERS = ("log_scale", "shift", "inner", "inner_bias", "outer", "outer_bias")


def fit_flow(
    points: Tensor,
    steps: int = 500,
    layers: int = 4,
    hidden: int = 64,
    rate: float = 1e-3,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Flow:
    """Fit a flow on points [n, d], n at least 3 and d at least 2, by maximum likelihood; reproducible by seed on a CPU.

    The flow has ``layers`` steps with couplings of width ``hidden``. Adam takes up to ``steps`` optimizer steps of
    learning rate ``rate`` on nine tenths of the points, in float32; the best state on the others is kept. ``progress``
    is called with the optimizer steps done and ``steps``, and may raise to stop. Raises ValueError for arguments out of
    range or too few different rows.
    """
    require_fit_points(points)
    n, d = points.shape
    if n < 3 or d < 2:
        raise ValueError(f"Expected at least 3 points of 2 dimensions to fit a flow on, got [{n}, {d}].")
    if steps < 0 or layers < 1 or hidden < 1 or not 0 < rate < math.inf:
        raise ValueError(
            "Expected steps of at least 0, layers and hidden of at least 1 and a rate above 0, got "
            f"steps = {steps}, layers = {layers}, hidden = {hidden}, rate = {rate}."
        )
    generator = torch.Generator().manual_seed(seed)
    shuffled = torch.randperm(n, generator=generator).to(points.device)
    validation, training = points[shuffled[: max(n // 10, 1)]], points[shuffled[max(n // 10, 1) :]]
    flow = _initial_flow(training, layers, hidden, generator)
    with torch.no_grad():
        z_training, z_validation = (flow.whiten(part.double()).float() for part in (training, validation))
    return _train(flow, z_training, z_validation, steps, rate, generator, progress)


def _initial_flow(points: Tensor, layers: int, hidden: int, generator: torch.Generator) -> Flow:
    """Return a flow that starts as PCA whitening, with identity steps in float32."""
    components = principal_components(points)
    if components.rank == 0:
        raise ValueError("Expected points that differ to fit a flow on, got all equal: they have no density.")
    d, r = points.shape[1], components.rank
    rotation, _ = torch.linalg.qr(components.directions.T, mode="complete")
    rotation[:, :r] = components.directions.T
    variances = components.variances[:1].repeat(d)
    variances[:r] = components.variances
    c, device = d // 2, points.device
    return Flow(
        mean=components.mean,
        rotation=rotation,
        scale=variances.rsqrt(),
        permutations=torch.stack([torch.randperm(d, generator=generator) for _ in range(layers)]).to(device),
        log_scale=torch.zeros(layers, d, device=device),
        shift=torch.zeros(layers, d, device=device),
        inner=(torch.randn(layers, hidden, c, generator=generator) / math.sqrt(c)).to(device),
        inner_bias=torch.zeros(layers, hidden, device=device),
        outer=torch.zeros(layers, 2 * (d - c), hidden, device=device),
        outer_bias=torch.zeros(layers, 2 * (d - c), device=device),
    )


@torch.no_grad()
def _train(
    flow: Flow,
    points: Tensor,
    validation: Tensor,
    steps: int,
    rate: float,
    generator: torch.Generator,
    progress: Callable[[int, int], None] | None,
) -> Flow:
    """Train on whitened float32 points and return the flow at its best step on the validation points."""
    parameters = {name: getattr(flow, name).requires_grad_() for name in TRAINED_PARAMETERS}
    optimizer = torch.optim.Adam(parameters.values(), lr=rate)
    best, best_loss, checks_since_best = _copy_parameters(parameters), _loss(flow, validation).item(), 0
    for step in range(1, steps + 1):
        rows = torch.randint(len(points), (BATCH_ROWS,), generator=generator).to(points.device)
        with torch.enable_grad():
            optimizer.zero_grad()
            _loss(flow, points[rows]).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        if progress is not None:
            progress(step, steps)
        if step % CHECK_STEPS == 0 or step == steps:
            loss, checks_since_best = _loss(flow, validation).item(), checks_since_best + 1
            if loss < best_loss:
                best, best_loss, checks_since_best = _copy_parameters(parameters), loss, 0
            elif checks_since_best >= PATIENT_CHECKS:
                break
    return replace(flow, **best)


def _loss(flow: Flow, whitened: Tensor) -> Tensor:
    """Return the negative log-likelihood per point and dimension, a scalar tensor, without the whitening's constant."""
    z, log_det = flow.apply_steps(whitened)
    return -(gaussian_log_density(z) + log_det).mean() / z.shape[1]


def _copy_parameters(parameters: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().double() for name, tensor in parameters.items()}
