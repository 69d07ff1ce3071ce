"""The topological penalty of Kudriashov, Karpik & Klyshinsky 2025, "Shrink the Longest"."""

import torch
from torch import Tensor

from isotropy.distributed import gathered
from isotropy.points import at_least_float32, require_points
from isotropy.prominence import prominent
from isotropy.topology import bar_entropy, barcode

BARS = ("prominent", "all")  # Bars whose entropy is raised: those of separate groups, or all


class PersistentEntropy(torch.nn.Module):
    """Penalty -lam H, the persistent entropy of some bars of the points, to be added to the task's loss.

    The bars in dimension 0 are the lengths l of the edges of the points' minimum spanning tree, and
    H = -sum p log p with p = l / sum l, in nats. lam > 0 makes the chosen bars more even, which shrinks the longest
    first: groups of points far from each other come together. lam < 0 makes them less even.

    Bars are those that stand for separate groups by the rule of ``isotropy.prominence``, or all. Of two points, and
    wherever a single bar is prominent, H is 0 and there is nothing to even out: the gradient is 0.

    H is **not** divided by log m, its greatest value for m bars; nor does the paper. So the penalty grows with the
    number of bars and, as H is summed over classes, with that of classes: keep the batch size when comparing lam.

    With ``cluster_weight`` the mean length of the other bars, those that are not prominent, is added in each class with
    that weight, whatever lam and ``bars``. It **shortens** them, as the text of the authors' package says; their
    notebook subtracts the term, which lengthens them. It is in the units of the points, not scale-free as H.

    Points that coincide have bars of length 0, which add nothing and have gradient 0. A class of fewer than two points
    has no bar and adds 0; so value and gradient are finite for any finite points, also none.

    Example::

        entropy = PersistentEntropy(lam=1.0)
        sentences = output.hidden_states[-1][:, 0]
        loss = output.loss + entropy(sentences, batch["labels"])

    Args:
        lam: strength, of either sign. The authors' code has 1.
        bars: "prominent" or "all".
        cluster_weight: weight of the mean length of the bars that are not prominent, at least 0. The authors' package
            proposes 0.5, their notebook has 0.05; the paper has none.
        across_processes: take the points of all processes as one cloud (see ``isotropy.distributed``).

    Raises:
        ValueError: ``bars`` is neither, or the weight is negative.

    """

    def __init__(
        self,
        lam: float,
        *,
        bars: str = "prominent",
        cluster_weight: float = 0.0,
        across_processes: bool = False,
    ) -> None:
        super().__init__()
        if bars not in BARS:
            raise ValueError(f"Expected bars to be one of {', '.join(BARS)}, got {bars!r}: choose one of them.")
        if not cluster_weight >= 0:
            raise ValueError(f"Expected a cluster weight of at least 0, got {cluster_weight}: 0 leaves the term out.")
        self.lam = lam
        self.bars = bars
        self.cluster_weight = cluster_weight
        self.across_processes = across_processes

    def forward(self, points: Tensor, labels: Tensor | None = None) -> Tensor:
        """Return the penalty on points [n, d]: 0-d, float64 if they are, else float32.

        For cluster weight 0 between 0 and -lam times the sum of log m over the classes. In n^2 d operations and 8 n^2
        bytes for each class, in float64, and n^2 more on the CPU: made for batches of one vector a text.

        Args:
            points: [n, d].
            labels: [n], the class of each point. Then H is the sum of those within the classes, which keeps classes
                from being drawn together. None takes all points as one class.

        Raises:
            ValueError: ``points`` is not a floating tensor [n, d] or not finite, or labels are not of its rows.

        """
        require_points(points)
        if labels is not None and labels.shape != points.shape[:1]:
            raise ValueError(
                f"Expected labels [{len(points)}], one of each point, got {list(labels.shape)}: number the classes."
            )
        x = at_least_float32(points)
        if self.across_processes:
            x = gathered(x)
            labels = labels if labels is None else gathered(labels)
        clouds = [x] if labels is None else [x[labels == label] for label in torch.unique(labels)]
        penalty = x[:0].sum()
        for cloud in clouds:
            penalty = penalty + self._of_class(barcode(cloud))
        return penalty

    def extra_repr(self) -> str:
        return (
            f"lam={self.lam}, bars={self.bars!r}, cluster_weight={self.cluster_weight}, "
            f"across_processes={self.across_processes}"
        )

    def _of_class(self, lengths: Tensor) -> Tensor:
        chosen = prominent(lengths)
        penalty = -self.lam * bar_entropy(lengths[chosen] if self.bars == "prominent" else lengths)
        if self.cluster_weight > 0:
            remaining = lengths[~chosen]
            penalty = penalty + self.cluster_weight * remaining.sum() / max(len(remaining), 1)
        return penalty
