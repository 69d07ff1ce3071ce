"""The topological penalty of Kudriashov, Karpik & Klyshinsky 2025, "Shrink the Longest"."""

import torch
from torch import Tensor

from isotropy.distributed import gathered
from isotropy.points import at_least_float32, require_points
from isotropy.prominence import prominent_mask
from isotropy.regularizers.penalty import Penalty
from isotropy.topology import bar_entropy, barcode

BARS = ("prominent", "all")  # Bars whose entropy counts: those between separate groups of points, or all


class PersistentEntropy(Penalty):
    """Penalty -lam H, the persistent entropy of some bars of the points, to be added to the task's loss.

    Bars l are the edges of the minimum spanning tree, and H = -sum p log p with p = l / sum l, in nats. lam > 0 makes
    the chosen bars more even, which shrinks the longest first and joins distant groups of points; lam < 0 makes them
    less even. ``bars`` are the "prominent" ones (``isotropy.prominence``) or "all". A single bar has H = 0 and gradient
    0. As in the paper, H is **not** divided by log m: it grows with the number of bars and classes, so keep the batch
    size.

    ``cluster_weight`` >= 0 adds the mean length of the bars that are not prominent, in the units of the points,
    whatever lam: it **shortens** them, as the authors' package says (0.5 there, 0.05 in their notebook, which lengthens
    them). Value and gradient are finite: coinciding points and classes of fewer than two points add nothing.

    Example::

        entropy = PersistentEntropy(lam=1.0)
        sentences = output.hidden_states[-1][:, 0]
        loss = output.loss + entropy(sentences, batch["labels"])
    """

    def __init__(
        self, lam: float, *, bars: str = "prominent", cluster_weight: float = 0.0, across_processes: bool = False
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
        """Return the penalty on points [n, d]: 0-d, at least float32, in n^2 d operations and 8 n^2 bytes per class.

        H is summed over the classes of ``labels`` [n]; None takes all points as one class. Raises ValueError for points
        that are not finite or labels of another length.
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
            lengths = barcode(cloud)
            is_prominent = prominent_mask(lengths)
            class_penalty = -self.lam * bar_entropy(lengths[is_prominent] if self.bars == "prominent" else lengths)
            if self.cluster_weight > 0:
                remaining = lengths[~is_prominent]
                class_penalty = class_penalty + self.cluster_weight * remaining.sum() / max(len(remaining), 1)
            penalty = penalty + class_penalty
        return penalty
