"""CosReg, the cosine regularizer of Gao et al. 2019, "Representation Degeneration Problem in Training NLG Models"."""

import torch
from torch import Tensor

from isotropy.cosine import unit_rows
from isotropy.distributed import summed
from isotropy.points import require_points


class CosReg(torch.nn.Module):
    """Penalty lam times the mean cosine of all pairs of points, to be added to the task's loss.

    With unit rows u it is lam (||sum u||^2 - n) / n^2, linear in n. lam > 0 moves points apart in direction, so that
    their mean goes toward the origin; lam < 0 draws them together. It sees the mean more than the covariance: it does
    not penalize IsoScore. Gao et al. apply it to word embeddings with lam = 1, Rudman & Eickhoff (2024) to the tokens
    of the last layer, as here. Zero rows are left out, with gradient 0; up to one row the penalty is 0.

    Example::

        cosreg = CosReg(lam=1.0)
        tokens = output.hidden_states[-1][batch["attention_mask"].bool()]
        loss = output.loss + cosreg(tokens)
    """

    def __init__(self, lam: float, *, across_processes: bool = False) -> None:
        super().__init__()
        self.lam = lam
        self.across_processes = across_processes

    def forward(self, points: Tensor) -> Tensor:
        """Return the penalty on points [n, d]: 0-d, between -lam / n and lam, at least float32.

        Raises ValueError unless ``points`` is a finite floating tensor.
        """
        require_points(points)
        units = unit_rows(points[points.detach().any(dim=1)])
        total, n = units.sum(0), torch.tensor(len(units), device=points.device)
        if self.across_processes:
            total, n = summed(total), summed(n)
        penalty = self.lam * (total.square().sum() - n) / n.clamp(min=1) ** 2
        if not penalty.isfinite():
            raise ValueError(
                "Expected finite points, got NaN or infinity: lower the learning rate, or look for the layer that "
                "diverges."
            )
        return penalty

    def extra_repr(self) -> str:
        return f"lam={self.lam}, across_processes={self.across_processes}"
