"""The partition function of Mu & Viswanath (2018): whether sums of exp(c.x) are the same in every direction c."""

import math

import torch
from torch import Tensor

from isotropy.points import at_least_float32, require_points
from isotropy.score import Score

BLOCK_ROWS = 1024  # Rows whose products with all directions are held at once: 3 MB in float32 at d = 768
# About -708; below it, exp loses digits or underflows in float64.
MIN_LOGARITHM = math.log(torch.finfo(torch.float64).tiny)


class PartitionFunction:
    """Z(c) = sum_x exp(c.x) of a stream of points x, for both directions c of every eigenvector.

    ``eigenvectors`` are the columns of float64 [d, d] from ``torch.linalg.eigh`` of X^T X; where eigenvalues are equal,
    they are arbitrary. Only log Z is kept, as Z overflows. Products are at least float32. NaN or infinity leave every
    score undefined. Raises ValueError unless the matrix is square and float64.
    """

    def __init__(self, eigenvectors: Tensor) -> None:
        if eigenvectors.ndim != 2 or len(eigenvectors) != eigenvectors.shape[1] or eigenvectors.dtype != torch.float64:
            raise ValueError(
                f"Expected eigenvectors as float64 [d, d], got {list(eigenvectors.shape)} of {eigenvectors.dtype}: "
                "give those of X^T X, which torch.linalg.eigh computes from the second moment."
            )
        self.n = 0
        self.log_z = eigenvectors.new_full((2, len(eigenvectors)), -math.inf)
        """log Z of the eigenvectors and of their opposites, float64 [2, d]; -infinity before the first point."""
        self._eigenvectors = eigenvectors.detach()

    def update(self, x: Tensor) -> None:
        require_points(x, len(self._eigenvectors))
        columns = self._eigenvectors.to(at_least_float32(x[:0]))
        for start in range(0, len(x), BLOCK_ROWS):
            products = at_least_float32(x[start : start + BLOCK_ROWS].detach()) @ columns
            log_z = torch.stack([products.logsumexp(0), products.neg_().logsumexp(0)])
            self.log_z = torch.logaddexp(self.log_z, log_z.to(self.log_z))
        self.n += len(x)

    def log_isotropy(self) -> Score:
        """Return min log Z - max log Z over all directions, in (-infinity, 0]; 0 is isotropic.

        Undefined without points, and for NaN or infinity.
        """
        if self.n == 0:
            return Score.undefined("The partition function needs at least 1 point; there is none.")
        if not self.log_z.isfinite().all():
            return Score.undefined("The partition function is not finite: some points are NaN, infinite or too large.")
        return Score.clipped(float(self.log_z.min() - self.log_z.max()), -math.inf, 0)

    def isotropy(self) -> Score:
        """Return min Z / max Z over all directions, in (0, 1]; 1 is isotropic (Mu & Viswanath 2018).

        It depends on scale: near 1 if all points are short. Undefined where too small for float64 and where
        ``log_isotropy`` is.
        """
        logarithm = self.log_isotropy()
        if logarithm.value is None:
            return logarithm
        if logarithm.value < MIN_LOGARITHM:
            return Score.undefined(
                f"The partition ratio is exp({logarithm.value:.6g}), too small for a number: the points are too long "
                "for this measure. Scale them all by one factor."
            )
        return Score(math.exp(logarithm.value))
