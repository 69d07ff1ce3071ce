"""I-STAR, the isotropy regularizer of Rudman & Eickhoff 2024, "Stable Anisotropic Regularization"."""

from typing import Any

import torch
from torch import Tensor

from isotropy.distributed import has_process_group, max_over_processes, summed
from isotropy.isoscore import isoscore_star_from_covariance
from isotropy.points import at_least_float32, require_points
from isotropy.spectrum import covariance, differentiable_gram, require_zeta


class IStar(torch.nn.Module):
    """Penalty lam (1 - IsoScore*(points, zeta, shrinkage covariance)), to be added to the task's loss.

    lam > 0 makes points more isotropic, lam < 0 less, in n d^2 operations. The gradient shrinks with 1 - zeta, so
    values of lam are not comparable between values of zeta in [0, 1]. The shrinkage covariance is a buffer in the
    ``state_dict``. ``across_processes`` takes the covariance of the union of all processes' points: a mean of
    covariances would weight processes, not tokens, and leave out how means differ. All must set the same shrinkage
    covariance.

    Example::

        istar = IStar(lam=-1.0, zeta=0.2)
        istar.set_shrinkage(moments.covariance())  # of many tokens, anew for each epoch
        loss = output.loss + istar(union_of_layers(output.hidden_states, batch["attention_mask"]))
    """

    shrinkage_covariance: Tensor  # [d, d] float32, or [0, 0] until it is set
    # [d, d] of the points of the last call, without a gradient and no part of the state: for a moving average.
    last_covariance: Tensor | None

    def __init__(self, lam: float, zeta: float, *, across_processes: bool = False) -> None:
        super().__init__()
        require_zeta(zeta)
        self.lam = lam
        self.zeta = zeta
        self.across_processes = across_processes
        self.last_covariance = None
        self.register_buffer("shrinkage_covariance", torch.empty(0, 0))
        self.register_load_state_dict_pre_hook(_resize_shrinkage_buffer)  # type: ignore[no-untyped-call]

    def set_shrinkage(self, S: Tensor) -> None:
        """Set the shrinkage covariance [d, d]; raise ValueError unless it is square and finite."""
        if S.ndim != 2 or S.shape[0] != S.shape[1] or not S.isfinite().all():
            raise ValueError(
                f"Expected a finite shrinkage covariance [d, d], got {list(S.shape)} with "
                f"{int((~S.isfinite()).sum())} values not finite: take it from Moments.covariance()."
            )
        self.shrinkage_covariance = S.detach().to(self.shrinkage_covariance)

    def forward(self, points: Tensor) -> Tensor:
        """Return the penalty on points [n, d]: 0-d, between 0 and lam, at least float32.

        Raises ValueError for zeta > 0 without a shrinkage covariance of this d, and for no points, d < 2, NaN or
        infinity.
        """
        S = self.shrinkage_covariance if self.shrinkage_covariance.numel() > 0 else None
        if self.zeta > 0 and S is None:
            raise ValueError(
                f"Expected a shrinkage covariance for zeta = {self.zeta}, got none: "
                "call set_shrinkage() before the first step, or set zeta = 0."
            )
        S_X = (
            _covariance_over_processes(points) if self.across_processes and has_process_group() else covariance(points)
        )
        self.last_covariance = S_X.detach()
        return self.lam * (1 - isoscore_star_from_covariance(S_X, self.zeta, S))

    def extra_repr(self) -> str:
        return f"lam={self.lam}, zeta={self.zeta}, across_processes={self.across_processes}"


def _covariance_over_processes(points: Tensor) -> Tensor:
    """Return the unbiased covariance [d, d] of the points [n, d] of all processes.

    Squares are summed about one shift near the mean, to keep the digits of the spread, and corrected for it.
    """
    require_points(points)
    x = at_least_float32(points)
    n = int(summed(torch.tensor(len(x), device=x.device)))
    if n == 0:
        raise ValueError("Expected at least 1 point in all processes, got 0: skip batches without any token.")
    # The mean of all points, clamped as in `centre`.
    values = x.detach()
    bounds = torch.stack([-values.amin(0), values.amax(0)]) if len(x) else x.new_full((2, x.shape[1]), -torch.inf)
    low, high = max_over_processes(bounds)
    shift = (summed(values.sum(0)) / n).clamp(-low, high)
    shifted = x - shift
    sums = summed(torch.cat([differentiable_gram(shifted), shifted.sum(0, keepdim=True)]))
    scatter, total = sums[:-1], sums[-1]
    return (scatter - total[:, None] * total / n) / max(n - 1, 1)


def _resize_shrinkage_buffer(module: IStar, state_dict: dict[str, Any], prefix: str, *_: object) -> None:
    """Resize the buffer before loading, because a new module does not know d."""
    saved = state_dict.get(f"{prefix}shrinkage_covariance")
    if saved is not None:
        module.shrinkage_covariance = module.shrinkage_covariance.new_empty(saved.shape)
