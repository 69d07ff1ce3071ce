"""Mean, covariance and spectrum of a cloud of points; shrinkage of one covariance toward another."""

from typing import Self

import torch
from torch import Tensor

from isotropy.points import at_least_float32, require_points

CHUNK_ROWS = 4096  # Rows of one matrix product: enough for speed, few enough for accurate sums in float32
SHIFT_ROWS = 64  # About how many rows are averaged for the shift: 43 to 85 if there are 128 or more, else all
BLOCK_COLUMNS = 192  # Columns of one product when a symmetric matrix is computed by blocks
KRYLOV_BLOCK = 4  # Vectors multiplied at once for leading eigenvalues
LEADING_ERROR = 1e-6  # Largest relative error of a leading eigenvalue
SAFE_NORM = 1e140  # Norms up to it, and down to its inverse, have squares within the range of float64


class Moments:
    """Count, mean and covariance of a stream of d-dimensional points, in one pass; parts can be merged.

    Chunks are shifted near their mean, so that squares keep the digits of a small spread, multiplied in their own
    precision (at least float32) and merged in float64 (Chan, Golub & LeVeque 1983). NaN or infinity leave every score
    undefined. Keep ``device`` on the CPU if the accelerator has no float64.
    """

    def __init__(self, d: int, device: torch.device | str = "cpu") -> None:
        self.n = 0
        self.mean = torch.zeros(d, dtype=torch.float64, device=device)
        self.scatter = torch.zeros(d, d, dtype=torch.float64, device=device)
        """Sum of (x - mean)(x - mean)^T over the points, float64 [d, d], read-only."""

    @property
    def d(self) -> int:
        return len(self.mean)

    def update(self, x: Tensor) -> None:
        require_points(x, self.d)
        # One buffer for all chunks: fresh memory takes as long as the subtraction.
        buffer = at_least_float32(x.new_empty(min(len(x), CHUNK_ROWS), self.d))
        for start in range(0, len(x), CHUNK_ROWS):
            chunk = at_least_float32(x[start : start + CHUNK_ROWS].detach())
            shift, shifted, shifted_mean = shift_near_mean(chunk, buffer[: len(chunk)])
            shifted_mean = self._to_storage(shifted_mean)
            self._add(len(chunk), self._to_storage(shift) + shifted_mean, gram(shifted))
            self.scatter.addr_(shifted_mean, shifted_mean, alpha=-len(chunk))

    def merge(self, moments: Self) -> None:
        """Add the points of another instance; raise ValueError if its number of dimensions differs."""
        if moments.d != self.d:
            raise ValueError(
                f"Expected moments of {self.d} dimensions, got {moments.d}: merge only clouds of one space."
            )
        self._add(moments.n, self._to_storage(moments.mean), moments.scatter)

    def covariance(self) -> Tensor:
        """Return the unbiased covariance (over n - 1), float64 [d, d]; zero for fewer than two points."""
        return self.scatter / max(self.n - 1, 1)

    def state(self) -> dict[str, Tensor]:
        """Return the moments as tensors that ``safetensors.torch.save_file`` takes: see ``from_state``."""
        return {"n": torch.tensor(self.n), "mean": self.mean.clone(), "scatter": self.scatter.clone()}

    @classmethod
    def from_state(cls, state: dict[str, Tensor], device: torch.device | str = "cpu") -> Self:
        moments = cls(len(state["mean"]), device)
        moments._add(int(state["n"]), moments._to_storage(state["mean"]), state["scatter"])
        return moments

    def _to_storage(self, x: Tensor) -> Tensor:
        return x.to(self.mean)

    def _add(self, n: int, mean: Tensor, scatter: Tensor) -> None:
        total = max(self.n + n, 1)
        delta = mean - self.mean
        # Add in place, float32 too: float64 copies would take a fifth of the time.
        self.scatter.add_(scatter.to(self.scatter.device))
        self.scatter.addr_(delta, delta, alpha=self.n * n / total)
        self.mean += delta * (n / total)
        self.n += n


def center(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean [d] and the centered points [n, d], n at least 1, in their dtype.

    The mean is clamped to the range of its dimension, so that equal points have exactly zero covariance.
    """
    # Call amin and amax separately: aminmax(dim=0) takes four times as long on a CPU.
    mean = x.mean(0).clamp(x.amin(0), x.amax(0))
    return mean, x - mean


def shift_near_mean(x: Tensor, out: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """Return a shift [d], the shifted points [n, d] (written into ``out``) and their mean [d]; no gradient.

    The shift is the mean of about ``SHIFT_ROWS`` points, at most sqrt(n / SHIFT_ROWS) standard deviations off: near
    enough to keep digits, and three times cheaper than exact centering. Constant dimensions become exactly zero.
    """
    # An odd stride: sequences are padded to even lengths, so an even one would read the same token of each.
    shift, _ = center(x[:: max(len(x) // SHIFT_ROWS, 1) | 1])
    shifted = torch.sub(x, shift, out=out)
    return shift, shifted, shifted.mean(0)


def gram(x: Tensor, add_to: Tensor | None = None) -> Tensor:
    """Return x^T x [d, d] of x [n, d], in its dtype and without gradient; added to a symmetric ``add_to`` in place.

    A CPU multiplies block columns down to the diagonal and mirrors them: five eighths of the work at d = 768.
    """
    d = x.shape[1]
    product = x.new_empty(d, d) if add_to is None else add_to
    with torch.autocast(x.device.type, enabled=False):
        width = BLOCK_COLUMNS if x.device.type == "cpu" else d
        for start in range(0, d, width):
            end = min(start + width, d)
            columns = product[:end, start:end]
            torch.addmm(columns, x[:, :end].T, x[:, start:end], beta=0 if add_to is None else 1, out=columns)
            product[start:end, :start] = columns[:start].T
    return product


def require_zeta(zeta: float) -> None:
    """Raise ValueError unless the shrinkage ``zeta`` lies in [0, 1]."""
    if not 0 <= zeta <= 1:
        raise ValueError(f"Expected zeta in [0, 1], got {zeta}: 0 is no shrinkage, 1 ignores the points.")


def shrink(S_X: Tensor, S_S: Tensor, zeta: float) -> Tensor:
    """Return (1 - zeta) S_X + zeta S_S [d, d], the shrunk covariance of IsoScore* (Rudman & Eickhoff 2024).

    S_X is the covariance of the points, S_S the shrinkage covariance. Weights are those of the paper's Algorithm 1 and
    code; the text of its section 3 swaps them. Raises ValueError for zeta outside [0, 1] or unequal shapes.
    """
    require_zeta(zeta)
    if S_X.shape != S_S.shape:
        raise ValueError(
            f"Expected a shrinkage covariance {list(S_X.shape)} like that of the points, got "
            f"{list(S_S.shape)}: estimate it from points of the same model."
        )
    return (1 - zeta) * S_X + zeta * S_S


def scaled_identity(S: Tensor) -> Tensor:
    """Return (tr(S) / d) I [d, d], the isotropic covariance with the total variance of ``S``."""
    return S.trace() / len(S) * torch.eye(len(S), dtype=S.dtype, device=S.device)


def eigenvalues(S: Tensor, rank: int | None = None) -> Tensor:
    """Return the eigenvalues of a float64 covariance or second moment [d, d], descending, [d], at least 0.

    Values below float64 rounding, and those beyond ``rank`` (n - 1 for a covariance, n for a second moment), are
    exactly 0, because square roots of them would magnify rounding errors. All are NaN for a matrix that is not finite.
    """
    S = S.double()
    if not S.isfinite().all():
        return torch.full_like(S[0], torch.nan)
    return clean_eigenvalues(torch.linalg.eigvalsh(S), rank)


def clean_eigenvalues(values: Tensor, rank: int | None, d: int | None = None) -> Tensor:
    """Return ascending eigenvalues [..., k], all or the largest of d, descending and cleaned as by ``eigenvalues``."""
    values = values.flip(-1)
    values = torch.where(values <= _rounding(values[..., :1], d or values.shape[-1]), 0, values)
    if rank is not None:
        values[..., max(rank, 0) :] *= 0  # so that NaN stays NaN
    return values


def _rounding(largest: Tensor, d: int) -> Tensor:
    # In place of an eigenvalue of 0, sums leave up to 20 eps times the largest one, and the solver up to d eps.
    return (d + 32) * torch.finfo(largest.dtype).eps * largest


def leading_eigenvalues(S: Tensor, count: int, rank: int | None = None) -> Tensor:
    """Return the largest eigenvalues [..., count] of matrices [..., d, d] as ``eigenvalues`` does.

    Relative errors are at most 1e-6. Block Lanczos with full reorthogonalization (Golub & Van Loan 2013, section
    10.3.6) takes a few products of ``S`` with ``KRYLOV_BLOCK`` vectors in place of d^3 operations. Residuals prove the
    bound; errors are about their squares. The start is fixed, so that equal calls have equal results. All eigenvalues
    are computed where d is small or convergence slow. A GPU waits for each call, so that a stack is faster there; it
    converges as slowly as its slowest matrix.
    """
    S = S.double()
    are_finite = S.isfinite().all(-1).all(-1)
    S = torch.where(are_finite[..., None, None], S, 0)
    values = _krylov_eigenvalues(S, count)
    values = torch.linalg.eigvalsh(S)[..., -count:] if values is None else values
    return clean_eigenvalues(values, rank, S.shape[-1]).masked_fill(~are_finite[..., None], torch.nan)


def _krylov_eigenvalues(S: Tensor, count: int) -> Tensor | None:
    """Return the largest eigenvalues [..., count], ascending, or None if Krylov spaces of d / 4 do not hold them."""
    d = S.shape[-1]
    block = torch.randn(d, KRYLOV_BLOCK, dtype=S.dtype, generator=torch.Generator().manual_seed(0)).to(S.device)
    basis, images = S[..., :0], S[..., :0]
    while basis.shape[-1] + KRYLOV_BLOCK <= d // 4:
        for _ in range(2):  # the second time restores digits that the first loses
            block = torch.linalg.qr(block - basis @ (basis.mT @ block)).Q
        basis, images = torch.cat([basis, block], -1), torch.cat([images, S @ block], -1)
        block = images[..., -KRYLOV_BLOCK:]
        if basis.shape[-1] % (4 * KRYLOV_BLOCK) == 0:
            all_values, all_vectors = torch.linalg.eigh(basis.mT @ images)
            values: Tensor = all_values[..., -count:]
            vectors = all_vectors[..., -count:]
            residuals = torch.linalg.vector_norm(images @ vectors - basis @ vectors * values.unsqueeze(-2), dim=-2)
            if (residuals <= LEADING_ERROR * values.clamp(min=_rounding(values[..., -1:], d) / LEADING_ERROR)).all():
                return values
    return None
