"""All-but-the-Top, and its softer form that removes a part of each component."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from isotropy.postprocess.components import Components, principal_components
from isotropy.postprocess.fitted import Fitted


@dataclass(frozen=True, eq=False)
class Removal(Fitted):
    """y - sum_i weight_i (u_i . y) u_i of y = x - mean, u the directions."""

    SHAPES: ClassVar = {"mean": "d", "directions": "D d", "weights": "D"}

    directions: Tensor
    """[D, d] float64, orthonormal; D is lower than asked for where the points have a lower rank."""
    weights: Tensor
    """[D] float64 in [0, 1]: 1 removes a component, 0 leaves it."""

    def _map(self, x: Tensor) -> Tensor:
        y = x - self.mean
        return y - (y @ self.directions.T * self.weights) @ self.directions


def fit_all_but_the_top(points: Tensor, D: int | None = None, components: Components | None = None) -> Removal:
    """Fit the removal of the mean and of the top D principal components on points [n, d] (Mu & Viswanath 2018).

    Components without variance are not removed: they are no directions of the points but of chance.

    Args:
        points: [n, d] to learn from.
        D: how many components; None takes max(1, d // 100), about the paper's d / 100.
        components: those of the points, where they are known.

    Raises:
        ValueError: D is not between 0 and d; ``points`` is no finite cloud with a row.

    """
    components = components or principal_components(points)
    directions = components.directions[: components_to_remove(D, points.shape[1])]
    return Removal(components.mean, directions, directions.new_ones(len(directions)))


def fit_weighted_removal(points: Tensor, D: int | None = None, components: Components | None = None) -> Removal:
    """Fit the removal of the mean and of a part of each of the top D components on points [n, d].

    The map is that of Liang et al. (2021), but for the centering, which their code leaves out. The weights are ours:
    they train theirs, unbounded, until cosines match human scores of word pairs, which points alone do not have. Here
    they are those in [0, 1] that maximize IsoScore of the fitted points. IsoScore grows with
    (sum v)^2 / sum v^2 over the variances v left; setting its derivative to zero levels the top D to

        c = sum_{i > D} v_i^2 / sum_{i > D} v_i,    so    weight_i = 1 - sqrt(c / v_i).

    Where no variance is left beyond D, the top ones are levelled to the least of them.

    Args:
        points: [n, d] to learn from.
        D: how many components; None takes max(1, d // 100).
        components: those of the points, where they are known.

    Raises:
        ValueError: D is not between 0 and d; ``points`` is no finite cloud with a row.

    """
    components = components or principal_components(points)
    D = components_to_remove(D, points.shape[1])
    top, rest = components.variances[:D], components.variances[D:]
    level = rest.square().sum() / rest.sum() if len(rest) > 0 else top[-1:]
    return Removal(components.mean, components.directions[:D], (1 - (level / top).sqrt()).clamp(0, 1))


def components_to_remove(D: int | None, d: int, dimensions_each: int = 100) -> int:
    """Return D, or where it is None one component for so many dimensions, at least one.

    Raises:
        ValueError: D is not between 0 and d.

    """
    if D is None:
        return max(1, d // dimensions_each)
    if not 0 <= D <= d:
        raise ValueError(f"Expected 0 <= D <= d = {d} components to remove, got {D}: there are d directions.")
    return D
