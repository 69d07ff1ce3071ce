"""A small normalizing flow: an invertible map f of points, and their density under it.

It begins as PCA whitening; then steps of Glow (Kingma & Dhariwal 2018) bend it: an affine of each dimension (actnorm),
a permutation, and a coupling, in which half of the dimensions, through a network of one hidden layer, scale and shift
the other half. Random permutations in place of learned 1x1 convolutions follow BERT-flow (Li et al. 2020). The rest is
ours: couplings are affine, as in Glow, not additive; there are no levels. See ``isotropy.postprocess.flow_training``.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from isotropy.postprocess.fitted import Fitted, require_finite
from isotropy.spectrum import CHUNK_ROWS


@dataclass(frozen=True, eq=False)
class Flow(Fitted):
    """An invertible map of d dimensions in K steps; c = d // 2 of the dimensions move the other d - c."""

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

    rotation: Tensor
    """[d, d] float64: principal directions in columns, completed to a basis."""
    scale: Tensor
    """[d] float64, to variance 1 along each; where there is no variance the least of these factors."""
    permutations: Tensor
    """[K, d] int64."""
    log_scale: Tensor
    """[K, d], as all below float64 once trained."""
    shift: Tensor
    """[K, d]."""
    inner: Tensor
    """[K, hidden, c]."""
    inner_bias: Tensor
    """[K, hidden]."""
    outer: Tensor
    """[K, 2 (d - c), hidden]: log-scales, then shifts."""
    outer_bias: Tensor
    """[K, 2 (d - c)]."""

    @classmethod
    def _sizes(cls, d: int) -> dict[str, int]:
        c = d // 2
        return {"d": d, "c": c, "2(d-c)": 2 * (d - c)}

    def _map(self, x: Tensor) -> Tensor:
        return self.transform(x)[0]

    def transform(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the images [m, d] of float64 points [m, d] and log |det df/dx| [m]; gradients flow through."""
        z, log_det = self.bend(self.whitened(x))
        return z, log_det + self.scale.log().sum()

    @torch.no_grad()
    def inverse(self, images: Tensor) -> Tensor:
        """Return the points [m, d] whose images these are, in their dtype as ``apply`` does.

        Raises:
            ValueError: ``images`` is not a floating tensor [m, d] of the fitted d, or it holds NaN or infinity.

        """
        return self._by_blocks(images, lambda z: self._straighten(z) / self.scale @ self.rotation.T + self.mean)

    @torch.no_grad()
    def log_likelihood(self, points: Tensor) -> Tensor:
        """Return the log-density of points [m, d] under the flow, in nats, float64 [m].

        Raises:
            ValueError: ``points`` is not a floating tensor [m, d] of the fitted d, or it holds NaN or infinity.

        """
        require_finite(points, len(self.mean))
        blocks = (self.transform(block.double()) for block in torch.split(points, CHUNK_ROWS))
        return torch.cat([gaussian_log_density(z) + log_det for z, log_det in blocks])

    def whitened(self, x: Tensor) -> Tensor:
        """Return the whitened points [m, d] of float64 points [m, d], which ``bend`` takes."""
        return (x - self.mean) @ self.rotation * self.scale

    def bend(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Return the images [m, d] of whitened points [m, d] and the log-determinant [m] of the steps."""
        c = z.shape[1] // 2
        log_det = z.new_zeros(len(z))
        for step, permutation in enumerate(self.permutations):
            z = (z * self.log_scale[step].exp() + self.shift[step])[:, permutation]
            log_scale, shift = self._coupling(step, z[:, :c])
            z = torch.cat([z[:, :c], z[:, c:] * log_scale.exp() + shift], dim=1)
            log_det = log_det + self.log_scale[step].sum() + log_scale.sum(1)
        return z, log_det

    def _straighten(self, z: Tensor) -> Tensor:
        c = z.shape[1] // 2
        for step in reversed(range(len(self.permutations))):
            log_scale, shift = self._coupling(step, z[:, :c])
            z = torch.cat([z[:, :c], (z[:, c:] - shift) * (-log_scale).exp()], dim=1)
            z = (z[:, self.permutations[step].argsort()] - self.shift[step]) * (-self.log_scale[step]).exp()
        return z

    def _coupling(self, step: int, half: Tensor) -> tuple[Tensor, Tensor]:
        """Log-scales, between -1 and 1, and shifts [m, d - c] that half [m, c] of the dimensions gives the other."""
        hidden = torch.relu(half @ self.inner[step].T + self.inner_bias[step])
        log_scale, shift = (hidden @ self.outer[step].T + self.outer_bias[step]).chunk(2, dim=1)
        return log_scale.tanh(), shift


def gaussian_log_density(z: Tensor) -> Tensor:
    """Return the log-density [m] of points [m, d] under N(0, I), in nats."""
    return -0.5 * (z.square().sum(1) + z.shape[1] * math.log(2 * math.pi))
