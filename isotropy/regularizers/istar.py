"""I-STAR, the isotropy regularizer of Rudman & Eickhoff 2024, "Stable Anisotropic Regularization"."""

from typing import Any

import torch
from torch import Tensor

from isotropy.evenness import evenness
from isotropy.regularizers.penalty import Penalty
from isotropy.spectrum import require_zeta


class IStar(Penalty):
    """Penalty lam (1 - IsoScore*(points, zeta, shrinkage covariance)), to be added to the task's loss.

    lam > 0 makes points more isotropic, lam < 0 less, in n d^2 operations. The gradient shrinks with 1 - zeta, so
    values of lam are not comparable between values of zeta in [0, 1]. The shrinkage covariance is a buffer in the
    ``state_dict``. ``across_processes`` takes the covariance of the union of all processes' points: a mean of
    covariances would weight processes, not tokens, and leave out how means differ. All must set the same shrinkage
    covariance. ``product_dtype``: see ``isotropy.evenness``.

    Example::

        istar = IStar(lam=-1.0, zeta=0.2)
        istar.set_shrinkage(moments.covariance())  # of many tokens, anew for each epoch
        loss = output.loss + istar(union_of_layers(output.hidden_states, batch["attention_mask"]))
    """

    shrinkage_covariance: Tensor  # [d, d] float32, or [0, 0] until it is set
    # [d, d] of the last call's points, for a moving average; has no gradient and is not in the ``state_dict``.
    last_covariance: Tensor | None

    def __init__(
        self, lam: float, zeta: float, *, across_processes: bool = False, product_dtype: torch.dtype | None = None
    ) -> None:
        super().__init__()
        require_zeta(zeta)
        self.lam = lam
        self.zeta = zeta
        self.across_processes = across_processes
        self.product_dtype = product_dtype
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

    def forward(self, points: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return the penalty on points [n, d], 0-d between 0 and lam, at least float32; ``mask`` [n] picks some.

        Raises ValueError for zeta > 0 without a shrinkage covariance of this d, and where ``evenness`` does.
        """
        S = self.shrinkage_covariance if self.shrinkage_covariance.numel() > 0 else None
        if self.zeta > 0 and S is None:
            raise ValueError(
                f"Expected a shrinkage covariance for zeta = {self.zeta}, got none: "
                "call set_shrinkage() before the first step, or set zeta = 0."
            )
        score, self.last_covariance = evenness(
            points,
            mask,
            zeta=self.zeta,
            target=S,
            across_processes=self.across_processes,
            product_dtype=self.product_dtype,
        )
        return self.lam * (1 - score)


def _resize_shrinkage_buffer(module: IStar, state_dict: dict[str, Any], prefix: str, *_: object) -> None:
    """Resize the buffer before loading, because a new module does not know d."""
    saved = state_dict.get(f"{prefix}shrinkage_covariance")
    if saved is not None:
        module.shrinkage_covariance = module.shrinkage_covariance.new_empty(saved.shape)
