"""Every post-processing method: its formula, parameters, source and pitfall."""

import math
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, Literal

from isotropy.catalog import sources


@dataclass(frozen=True, kw_only=True)
class MethodParameter:
    """A numeric argument of a method."""

    name: str
    default: int | float | None  # None: derived from the points, as the range says
    low: int | float
    high: int | float | None  # None: no bound known without the points
    range: str
    meaning: str
    symbol: str = ""  # Its symbol in the method's formula, if not its name
    # Dimensions per component where the default is None; at least one component.
    dimensions_per_component: int | None = None
    # If `high` is None: whether the fitted points or their dimensions bound it.
    bounded_by: Literal["n", "d"] | None = None

    @property
    def is_integer(self) -> bool:
        return isinstance(self.low, int)

    def accepts(self, value: Any) -> bool:
        """Return whether a value is a valid number within the bounds, or None where None is the default."""
        if value is None:
            return self.default is None
        numeric = isinstance(value, Integral if self.is_integer else Real) and not isinstance(value, bool)
        return numeric and self.low <= value < math.inf and (self.high is None or value <= self.high)

    def default_for(self, d: int) -> int | float:
        if self.default is not None:
            return self.default
        return max(1, d // (self.dimensions_per_component or 1))

    def high_for(self, n: int, d: int) -> int | float | None:
        """Return the maximum for n points of d dimensions, or None if there is no bound."""
        return self.high if self.bounded_by is None else {"n": n, "d": d}[self.bounded_by]


@dataclass(frozen=True, kw_only=True)
class MethodEntry:
    """A method, in plain text. x is a point; μ and U Λ Uᵀ are mean and covariance of the points fitted on."""

    slug: str
    name: str
    action: str  # Imperative for applying it, such as "Whiten by PCA"
    formula: str
    meaning: str
    pitfall: str
    citation: str
    parameters: tuple[MethodParameter, ...] = ()


_TAUTOLOGY = "With n > d, IsoScore of the fitted rows is 1 by construction. Only held-out rows show its effect."
_COMPONENTS = MethodParameter(
    name="D",
    default=None,
    low=0,
    high=None,
    range="0 to d; by default max(1, ⌊d / 100⌋)",
    meaning="Number of principal components removed, strongest first.",
    dimensions_per_component=100,
    bounded_by="d",
)
_SEED = MethodParameter(
    name="seed", default=0, low=0, high=2**32 - 1, range="0 to 2³² − 1", meaning="Seed of everything random."
)

# All methods by slug, in display order.
METHODS: dict[str, MethodEntry] = {
    method.slug: method
    for method in (
        MethodEntry(
            slug="centring",
            name="Centering",
            action="Center",
            formula="x − μ",
            meaning="Subtracts the mean. Mean cosine falls toward 0.",
            pitfall="Does not change covariance or IsoScore.",
            citation=sources.MU_2018,
        ),
        MethodEntry(
            slug="standardisation",
            name="Standardization",
            action="Standardize",
            formula="(x_i − μ_i) / s_i in each dimension, s_i over n; 0 where s_i = 0",
            meaning="Gives every dimension equal weight, so no rogue dimension dominates the cosine.",
            pitfall="Depends on the basis, keeps correlations, and amplifies the noise of weak dimensions.",
            citation=sources.TIMKEY_2021,
        ),
        MethodEntry(
            slug="all_but_the_top",
            name="All-but-the-Top",
            action="Remove the mean and the top directions",
            formula="y − Σ_{i ≤ D} (u_i · y) u_i, y = x − μ, u_i the principal directions",
            meaning="Removes the mean and the strongest components, which often encode frequency rather than meaning.",
            pitfall="Removed components are lost, and a smooth spectrum has no clear cut. Compare several D on "
            "held-out rows.",
            citation=sources.MU_2018,
            parameters=(_COMPONENTS,),
        ),
        MethodEntry(
            slug="weighted_removal",
            name="Weighted removal",
            action="Shrink the top directions",
            formula="y − Σ_{i ≤ D} w_i (u_i · y) u_i, w_i = 1 − √(c / λ_i), c = Σ_{i > D} λ_i² / Σ_{i > D} λ_i",
            meaning="Shrinks the strongest components to the level that maximizes IsoScore. None is removed entirely.",
            pitfall="The paper trains its weights on human scores of word pairs. Isoscope derives them from the "
            "spectrum.",
            citation=sources.LIANG_2021,
            parameters=(_COMPONENTS,),
        ),
        MethodEntry(
            slug="pca_whitening",
            name="PCA whitening",
            action="Whiten by PCA",
            formula="Λ^(−1/2) Uᵀ (x − μ), greatest λ first; 0 where λ = 0",
            meaning="Maps the points to their principal components, each with variance 1.",
            pitfall=_TAUTOLOGY,
            citation=sources.KESSY_2018,
        ),
        MethodEntry(
            slug="zca_whitening",
            name="ZCA whitening",
            action="Whiten",
            formula="U Λ^(−1/2) Uᵀ (x − μ), without the directions where λ = 0",
            meaning="Gives the points identity covariance while moving them as little as possible.",
            pitfall=_TAUTOLOGY,
            citation=f"{sources.BELL_1997} {sources.KESSY_2018}",
        ),
        MethodEntry(
            slug="partial_whitening",
            name="Partial whitening",
            action="Whiten partly",
            formula="U Λ^(−γ/2) Uᵀ (x − μ), without the directions where λ = 0",
            meaning="Compresses the spectrum: every variance λ becomes λ^(1 − γ), whatever the units of the points.",
            pitfall="Weak directions are amplified most, and they are mostly noise. γ = 1 is ZCA whitening.",
            citation=sources.ARTETXE_2018,
            parameters=(
                MethodParameter(
                    name="gamma",
                    symbol="γ",
                    default=0.5,
                    low=0.0,
                    high=1.0,
                    range="[0, 1]",
                    meaning="Share of the way from centering (0) to ZCA whitening (1).",
                ),
            ),
        ),
        MethodEntry(
            slug="soft_zca",
            name="Soft ZCA whitening",
            action="Whiten softly",
            formula="U (Λ + ε I)^(−1/2) Uᵀ (x − μ)",
            meaning="Whitens strong directions and spares weak ones, which are mostly noise.",
            pitfall="ε is in squared units of the points: the same ε whitens points of another model more or less.",
            citation=sources.DIERA_2024,
            parameters=(
                MethodParameter(
                    name="eps",
                    symbol="ε",
                    default=0.1,
                    low=0.0,
                    high=None,
                    range="[0, ∞), in squared units of the points",
                    meaning="Added to every eigenvalue. 0 is ZCA whitening; a large ε hardly changes the shape.",
                ),
            ),
        ),
        MethodEntry(
            slug="cluster_based",
            name="Cluster-based isotropy",
            action="Remove the top directions of each cluster",
            formula="y − Σ_{i ≤ D} (u_i · y) u_i, y = x − μ, with μ and u of the cluster of the nearest centroid",
            meaning="All-but-the-Top within each k-means cluster, because contextual embeddings form clusters.",
            pitfall="Moves all clusters to 0. What separated them, perhaps a class, is lost.",
            citation=sources.RAJAEE_2021,
            parameters=(
                MethodParameter(
                    name="clusters",
                    default=27,
                    low=1,
                    high=None,
                    range="1 to n",
                    meaning="Number of clusters.",
                    bounded_by="n",
                ),
                MethodParameter(
                    name="D",
                    default=None,
                    low=0,
                    high=None,
                    range="0 to d; by default max(1, ⌊d / 64⌋), 12 for 768",
                    meaning="Number of principal components removed in each cluster.",
                    dimensions_per_component=64,
                    bounded_by="d",
                ),
                _SEED,
            ),
        ),
        MethodEntry(
            slug="flow",
            name="Gaussian calibration by a flow",
            action="Apply a flow",
            formula="f(x), f invertible and trained to raise log N(f(x); 0, I) + log |det ∂f/∂x|",
            meaning="Transforms the points toward a Gaussian: whitening, then a small network.",
            pitfall="In high dimensions with few points it learns little beyond whitening. Check the held-out rows.",
            citation=f"{sources.LI_2020} {sources.KINGMA_2018}",
            parameters=(
                MethodParameter(
                    name="steps",
                    default=500,
                    low=0,
                    high=100_000,
                    range="0 to 100000",
                    meaning="Maximum training steps. Stops early when held-out rows no longer improve.",
                ),
                MethodParameter(
                    name="layers", default=4, low=1, high=32, range="1 to 32", meaning="Number of flow layers."
                ),
                MethodParameter(
                    name="hidden",
                    default=64,
                    low=1,
                    high=4096,
                    range="1 to 4096",
                    meaning="Width of the network in each layer.",
                ),
                MethodParameter(
                    name="rate",
                    default=1e-3,
                    low=1e-6,
                    high=1.0,
                    range="[10⁻⁶, 1]",
                    meaning="Learning rate of Adam. If it diverges, the result is plain whitening.",
                ),
                _SEED,
            ),
        ),
    )
}
