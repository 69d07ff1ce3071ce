"""I-STAR, the isotropy regularizer of Rudman & Eickhoff 2024, "Stable Anisotropic Regularization"."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from isotropy.isoscore import isoscore_star
from isotropy.spectrum import require_zeta


class IStar(torch.nn.Module):
    """Penalty lam (1 - IsoScore*(points, zeta, shrinkage covariance)), to be added to the task's loss.

    lam > 0 makes points more isotropic, lam < 0 less. The gradient shrinks with 1 - zeta, so values of lam
    are not comparable between values of zeta. The shrinkage covariance is a buffer: it follows the module to
    its device and is saved in its ``state_dict``.

    Example::

        istar = IStar(lam=-1.0, zeta=0.2)
        istar.set_shrinkage(moments.covariance())  # of many tokens, anew for each epoch
        loss = output.loss + istar(union_of_layers(output.hidden_states, batch["attention_mask"]))

    Args:
        lam: strength, of either sign.
        zeta: shrinkage in [0, 1].

    Raises:
        ValueError: zeta is outside [0, 1].

    """

    shrinkage_covariance: Tensor
    """[d, d] float32, or [0, 0] until it is set."""

    def __init__(self, lam: float, zeta: float) -> None:
        super().__init__()
        require_zeta(zeta)
        self.lam = lam
        self.zeta = zeta
        self.register_buffer("shrinkage_covariance", torch.empty(0, 0))
        self.register_load_state_dict_pre_hook(_make_room)  # type: ignore[no-untyped-call]

    def set_shrinkage(self, S: Tensor) -> None:
        """Set the shrinkage covariance [d, d], towards which the points' covariance is shrunk.

        Raises:
            ValueError: ``S`` is not a finite square matrix.

        """
        if S.ndim != 2 or S.shape[0] != S.shape[1] or not S.isfinite().all():
            raise ValueError(
                f"Expected a finite shrinkage covariance [d, d], got {list(S.shape)} with "
                f"{int((~S.isfinite()).sum())} values not finite: take it from Moments.covariance()."
            )
        self.shrinkage_covariance = S.detach().to(self.shrinkage_covariance)

    def forward(self, points: Tensor) -> Tensor:
        """Return the penalty on points [n, d]: 0-d, between 0 and lam, float64 if they are, else float32.

        Raises:
            ValueError: zeta > 0 and the shrinkage covariance is not set or has another d; no points, or one
                dimension; points that are not finite.

        """
        S = self.shrinkage_covariance if self.shrinkage_covariance.numel() > 0 else None
        if self.zeta > 0 and S is None:
            raise ValueError(
                f"Expected a shrinkage covariance for zeta = {self.zeta}, got none: "
                "call set_shrinkage() before the first step, or set zeta = 0."
            )
        return self.lam * (1 - isoscore_star(points, self.zeta, S))

    def extra_repr(self) -> str:
        """Return the settings, for ``print(module)``."""
        return f"lam={self.lam}, zeta={self.zeta}"


def _make_room(module: IStar, state_dict: dict[str, Any], prefix: str, *_: object) -> None:
    """Give the buffer the shape of the saved one: a fresh module does not know d, and loading compares."""
    saved = state_dict.get(f"{prefix}shrinkage_covariance")
    if saved is not None:
        module.shrinkage_covariance = module.shrinkage_covariance.new_empty(saved.shape)
