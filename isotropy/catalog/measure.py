"""What the catalogue says of a measure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Group = Literal["spread", "directions", "neighbours", "topology", "labels"]


@dataclass(frozen=True, kw_only=True)
class Measure:
    """A measure, described in plain text. X is the cloud [n, d], S its covariance, λ the eigenvalues of S."""

    slug: str
    group: Group
    name: str
    symbol: str
    range: str
    formula: str
    meaning: str
    pitfall: str
    citation: str
    higher_means: Literal["more isotropic", "less isotropic", "neither"]
