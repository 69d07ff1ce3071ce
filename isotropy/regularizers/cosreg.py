"""CosReg, the cosine regularizer of Gao et al. 2019, "Representation Degeneration Problem in Training NLG Models"."""

from torch import Tensor

from isotropy.cosine import unit_rows
from isotropy.distributed import summed
from isotropy.points import require_finite, require_points
from isotropy.regularizers.penalty import Penalty


class CosReg(Penalty):
    """Penalty lam times the mean cosine of all pairs of points, to be added to the task's loss.

    With unit rows u it is lam (||sum u||^2 - n) / n^2, in n d operations: as in the paper, the sum of the cosines of
    pairs i != j is divided by n^2. lam > 0 moves points apart in direction, so that their mean goes toward the origin;
    lam < 0 draws them together. It depends on the mean more than on the covariance, so it does not penalize IsoScore.
    Gao et al. apply it to word embeddings with lam = 1, Rudman & Eickhoff (2024) to the tokens of the last layer, as
    here. Zero rows are left out, with gradient 0. For fewer than two rows the penalty is 0.

    Example::

        cosreg = CosReg(lam=1.0)
        tokens, mask = output.hidden_states[-1], batch["attention_mask"]
        loss = output.loss + cosreg(tokens.flatten(0, 1), mask.flatten().bool())
    """

    def __init__(self, lam: float, *, across_processes: bool = False) -> None:
        super().__init__()
        self.lam = lam
        self.across_processes = across_processes

    def forward(self, points: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return the penalty on points [n, d], 0-d between -lam / n and lam, at least float32; ``mask`` [n] picks some.

        Raises ValueError unless ``points`` is a floating tensor, and on the CPU for NaN or infinity.
        """
        require_points(points)
        x = points if mask is None else points.masked_fill(~mask[:, None], 0)
        has_direction = x.detach().any(dim=1)
        total, n = unit_rows(x).masked_fill(~has_direction[:, None], 0).sum(0), has_direction.sum()
        if self.across_processes:
            total, n = summed(total), summed(n)
        penalty = self.lam * (total.square().sum() - n) / n.clamp(min=1) ** 2
        require_finite(penalty)
        return penalty
