"""Gaussian calibration: a small normalizing flow trained on points (after BERT-flow, Li et al. 2020).

Trained by maximum likelihood, log N(f(x); 0, I) + log |det df/dx|, so that the images f(x) of the points become
Gaussian. Whitening replaces the data-dependent start of actnorm; and a tenth of the points, on which nothing is
trained, tells when to stop: both are ours. A coupling sees how one dimension depends on others: skew of a dimension
that depends on none is hardly mended.
"""

import math
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from isotropy.postprocess.components import principal_components
from isotropy.postprocess.fitted import require_to_fit
from isotropy.postprocess.flow import Flow, gaussian_log_density

BATCH_ROWS = 256
CHECK_STEPS = 20
"""Steps between two looks at the points that tell when to stop."""
PATIENT_CHECKS = 5
"""Looks without a gain after which training stops."""
TRAINED = ("log_scale", "shift", "inner", "inner_bias", "outer", "outer_bias")


def fit_flow(
    points: Tensor,
    steps: int = 500,
    layers: int = 4,
    hidden: int = 64,
    rate: float = 1e-3,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Flow:
    """Fit a flow on points [n, d] by maximum likelihood; the same seed gives the same flow on a CPU.

    Trained in float32 on nine tenths of the points, of which it takes the state most likely on the last tenth.

    Args:
        points: [n, d] to learn from, n at least 3 and d at least 2.
        steps: most steps of training; 0 leaves the whitening of nine tenths of the points.
        layers: steps of the flow, at least 1.
        hidden: width of each coupling's network, at least 1.
        rate: learning rate of Adam.
        seed: of the parts, the batches, the permutations and the first weights.
        progress: called after each step with the steps done and the most there will be; what it raises ends the fit.

    Raises:
        ValueError: an argument is out of range; ``points`` is no finite cloud with enough different rows.

    """
    require_to_fit(points)
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
    watched, trained = points[shuffled[: max(n // 10, 1)]], points[shuffled[max(n // 10, 1) :]]
    flow = _initial(trained, layers, hidden, generator)
    with torch.no_grad():
        z_trained, z_watched = (flow.whitened(part.double()).float() for part in (trained, watched))
    return _trained(flow, z_trained, z_watched, steps, rate, generator, progress)


def _initial(points: Tensor, layers: int, hidden: int, generator: torch.Generator) -> Flow:
    """PCA whitening of the points, and steps that change nothing yet; what is trained in float32."""
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


def _trained(
    flow: Flow,
    points: Tensor,
    watched: Tensor,
    steps: int,
    rate: float,
    generator: torch.Generator,
    progress: Callable[[int, int], None] | None,
) -> Flow:
    """The flow after training on whitened points, float32 as those watched, at the step that was best on these."""
    parameters = {name: getattr(flow, name).requires_grad_() for name in TRAINED}
    optimizer = torch.optim.Adam(parameters.values(), lr=rate)
    best, best_loss, checks = _copied(parameters), _watched_loss(flow, watched), 0
    for step in range(1, steps + 1):
        rows = torch.randint(len(points), (BATCH_ROWS,), generator=generator).to(points.device)
        with torch.enable_grad():
            optimizer.zero_grad()
            _loss(flow, points[rows]).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        if progress is not None:
            progress(step, steps)
        if step % CHECK_STEPS == 0 or step == steps:
            loss, checks = _watched_loss(flow, watched), checks + 1
            if loss < best_loss:
                best, best_loss, checks = _copied(parameters), loss, 0
            elif checks >= PATIENT_CHECKS:
                break
    return replace(flow, **best)


def _loss(flow: Flow, whitened: Tensor) -> Tensor:
    """Negative log-likelihood by point and dimension, but for what whitening adds to it, 0-d."""
    z, log_det = flow.bend(whitened)
    return -(gaussian_log_density(z) + log_det).mean() / z.shape[1]


@torch.no_grad()
def _watched_loss(flow: Flow, whitened: Tensor) -> float:
    return _loss(flow, whitened).item()


def _copied(parameters: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().double() for name, tensor in parameters.items()}
