"""Base class of fitted post-processing maps."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import ClassVar, Self

import torch
from torch import Tensor

from isotropy.points import require_points
from isotropy.spectrum import CHUNK_ROWS


@dataclass(frozen=True, eq=False)
class FittedMap(ABC):
    """A fitted map of points, on the device of its tensors. All fields are tensors, so ``state`` holds all of it."""

    # The shape of each tensor by its name, as `"mean": "d"`; a letter is the same size in all, and "mean" comes first.
    SHAPES: ClassVar[dict[str, str]]

    # [d] float64, subtracted first: the mean of the points it was fitted on; [clusters, d] if there are clusters.
    mean: Tensor

    @torch.no_grad()
    def apply(self, points: Tensor) -> Tensor:
        """Return the images [m, d] of points [m, d], row by row, in the points' dtype but at least float32.

        Raises ValueError unless ``points`` is a finite floating tensor of the fitted d.
        """
        return self._map_blocks(points, self._map)

    @abstractmethod
    def _map(self, x: Tensor) -> Tensor: ...

    def _map_blocks(self, points: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
        require_finite(points, self.mean.shape[-1])
        images = points.new_empty(points.shape, dtype=torch.promote_types(points.dtype, torch.float32))
        for start in range(0, len(points), CHUNK_ROWS):
            images[start : start + CHUNK_ROWS] = function(points[start : start + CHUNK_ROWS].double())
        return images

    def state(self) -> dict[str, Tensor]:
        """Return the tensors, as ``safetensors.torch.save_file`` takes them: see ``from_state``."""
        return {field.name: getattr(self, field.name).contiguous() for field in fields(self)}

    @classmethod
    def from_state(cls, state: dict[str, Tensor]) -> Self:
        """Restore a map from its ``state()``; raise ValueError for other tensors or shapes."""
        if set(state) != set(cls.SHAPES):
            raise ValueError(
                f"Expected the tensors {sorted(cls.SHAPES)}, got {sorted(state)}: pass the state of a {cls.__name__}."
            )
        sizes = cls._sizes(state["mean"].shape[-1] if state["mean"].ndim > 0 else 1)
        for name, letters in cls.SHAPES.items():
            shape, expected = list(state[name].shape), letters.split()
            if len(shape) == len(expected):
                sizes = dict(zip(expected, shape, strict=True)) | sizes
            if shape != [sizes.get(letter) for letter in expected]:
                sizes_text = ", ".join(str(sizes.get(letter, letter)) for letter in expected)
                raise ValueError(
                    f"Expected {name} as [{sizes_text}] to match the other tensors, got {shape}: pass it unchanged."
                )
        return cls(**state)

    @classmethod
    def _sizes(cls, d: int) -> dict[str, int]:
        """Return the sizes implied by d, by their letters in ``SHAPES``."""
        return {"d": d}


def require_finite(points: Tensor, d: int | None = None) -> None:
    """Raise ValueError unless ``points`` is a finite cloud [n, d]; None allows any d."""
    require_points(points, d)
    # Maximum and minimum also reveal NaN, in a third of the time of checking each number.
    if points.numel() and not (points.amax().isfinite() and points.amin().isfinite()):
        raise ValueError("Expected finite points, got NaN or infinity: leave those rows out first.")


def require_fit_points(points: Tensor) -> None:
    """Raise ValueError unless ``points`` is a finite cloud [n, d] with at least one row."""
    require_finite(points)
    if len(points) == 0:
        raise ValueError("Expected at least 1 point to fit on, got 0: pass the rows to learn from.")
