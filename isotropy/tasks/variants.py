"""Variants to compare: a post-processing method, a number of dimensions, and a storage format."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from isotropy.catalog import METHODS
from isotropy.tasks.storage import PQ_CENTROIDS, VectorStorage, bytes_of, pq_bytes

AS_IT_IS = "none"
MAX_VARIANTS = 40
CLUSTERS = 27
ROWS_PER_CLUSTER = 50
FEWEST_DIMENSIONS = 4
# Methods that leave no strong directions for principal components to select.
WHITENINGS = ("pca_whitening", "zca_whitening", "flow")

# Not among the remedies: they take many times as long as other methods, or differ little from one of them.
SLOW_METHODS = ("weighted_removal", "cluster_based", "flow")

Parameters = tuple[tuple[str, int | float], ...]


class Dimensions(NamedTuple):
    """Dimensions kept after the post-processing."""

    kind: str = "all"  # `all`, `pca` for the first principal components, or `first`
    size: int | None = None

    def __str__(self) -> str:
        """Return ``all``, ``pca-192`` or ``first-192``."""
        return self.kind if self.size is None else f"{self.kind}-{self.size}"


ALL = Dimensions()


@dataclass(frozen=True)
class Variant:
    """A post-processing, a reduction and a storage format."""

    method: str = AS_IT_IS  # A slug of `isotropy.catalog.METHODS`, or `none`
    parameters: Parameters = ()
    dimensions: Dimensions = ALL
    storage: VectorStorage = VectorStorage.FLOAT32

    @property
    def name(self) -> str:
        """Display name, such as "PCA-192 int8"."""
        name_parts = []
        if self.method != AS_IT_IS:
            arguments = ", ".join(f"{name} {value:g}" for name, value in self.parameters)
            name_parts.append(METHODS[self.method].name + (f" ({arguments})" if arguments else ""))
        kind, size = self.dimensions
        if size is not None:
            name_parts.append({"pca": f"PCA-{size}", "first": f"first {size}"}[kind])
        if self.storage is not VectorStorage.FLOAT32:
            name_parts.append(self.storage.label)
        return " ".join(name_parts) or "as it is"

    @property
    def action(self) -> str:
        """Instruction for using the variant, such as "Standardize, keep 192 principal components, store as int8"."""
        words = []
        if self.method != AS_IT_IS:
            arguments = ", ".join(f"{name} {value:g}" for name, value in self.parameters)
            words.append(METHODS[self.method].action + (f" ({arguments})" if arguments else ""))
        kind, size = self.dimensions
        if size is not None:
            words.append(
                {"pca": f"keep {size} principal components", "first": f"keep the first {size} dimensions"}[kind]
            )
        if self.storage is not VectorStorage.FLOAT32:
            words.append(f"store as {self.storage.label}")
        sentence = ", ".join(words) or "keep the vectors as they are"
        return sentence[0].upper() + sentence[1:]

    def bytes_of(self, d: int) -> int:
        """Return the bytes per vector that a search keeps, for d dimensions before reduction."""
        return bytes_of(self.storage, self.dimensions.size or d)


class VariantSetting(NamedTuple):
    """Properties of vectors and task that determine the list of variants."""

    n: int
    d: int
    variance: float  # The mean variance of a dimension, the unit of soft ZCA's eps
    # Whether post-processings can be judged; not against the exact neighbors of unprocessed vectors.
    allows_methods: bool = True
    uses_search: bool = True


def default_variants(setting: VariantSetting) -> list[Variant]:
    """Return at most ``MAX_VARIANTS`` variants, the unchanged vectors first."""
    half, quarter = _reduced_sizes(setting.d)
    variants = list(_with_storages(Variant(), VectorStorage))
    variants += _with_storages(
        Variant(dimensions=Dimensions("pca", half)),
        [storage for storage in VectorStorage if storage not in (VectorStorage.FLOAT16, VectorStorage.BINARY)],
    )
    variants += _with_storages(
        Variant(dimensions=Dimensions("pca", quarter)), (VectorStorage.FLOAT32, VectorStorage.INT8, VectorStorage.PQ)
    )
    variants += (
        Variant(dimensions=Dimensions("first", size), storage=storage)
        for size, storage in (
            (half, VectorStorage.FLOAT32),
            (half, VectorStorage.INT8),
            (quarter, VectorStorage.FLOAT32),
        )
    )
    if setting.allows_methods:
        # PCA whitening is ZCA whitening rotated, so only its first dimensions make another variant.
        dimensions_by_method = {"pca_whitening": Dimensions("first", half)}
        variants += (
            Variant(method, parameters, dimensions_by_method.get(method, ALL))
            for method, parameters in default_methods(setting)
        )
        second_form = (
            (ALL, VectorStorage.RESCORED) if setting.uses_search else (Dimensions("pca", half), VectorStorage.INT8)
        )
        variants += (
            Variant(method, (parameter,), *dimensions_and_storage)
            for method, parameter in (
                ("all_but_the_top", ("D", 1)),
                ("partial_whitening", ("gamma", 0.25)),
                ("soft_zca", ("eps", _eps(setting, 1))),
            )
            for dimensions_and_storage in ((ALL, VectorStorage.INT8), second_form)
        )
    return _drop_impossible(variants, setting)[:MAX_VARIANTS]


def remedies(setting: VariantSetting) -> list[Variant]:
    """Return the post-processings that take seconds, the unchanged vectors first, and some of them as int8."""
    half, quarter = _reduced_sizes(setting.d)
    reduced = [Variant(dimensions=Dimensions("pca", size)) for size in (half, quarter)]
    changed = [
        Variant(method, parameters, Dimensions("first", half) if method == "pca_whitening" else ALL)
        for method, parameters in default_methods(setting)
        if method not in SLOW_METHODS
    ]
    int8 = [
        replace(variant, storage=VectorStorage.INT8)
        for variant in (Variant(), Variant("centring"), Variant("standardisation"), *reduced)
    ]
    return _drop_impossible([Variant(), *changed, *reduced, *int8], setting)


def all_variants(setting: VariantSetting) -> list[Variant]:
    """Return all combinations but principal components after whitening, the unchanged vectors first."""
    reduced = [Dimensions(kind, size) for kind in ("pca", "first") for size in _reduced_sizes(setting.d)]
    return _drop_impossible(
        [
            Variant(method, parameters, dimensions, storage)
            for method, parameters in [(AS_IT_IS, ()), *(default_methods(setting) if setting.allows_methods else ())]
            for dimensions in (ALL, *reduced)
            if not (dimensions.kind == "pca" and method in WHITENINGS)
            for storage in VectorStorage
        ],
        setting,
    )


def default_methods(setting: VariantSetting) -> list[tuple[str, Parameters]]:
    component_counts = sorted({count for count in (1, setting.d // 100, setting.d // 32) if 1 <= count < setting.d})
    clusters = min(CLUSTERS, setting.n // ROWS_PER_CLUSTER)
    return [
        ("centring", ()),
        ("standardisation", ()),
        *(("all_but_the_top", (("D", count),)) for count in component_counts),
        ("weighted_removal", (("D", component_counts[-1] if component_counts else 1),)),
        ("pca_whitening", ()),
        ("zca_whitening", ()),
        *(("partial_whitening", (("gamma", gamma),)) for gamma in (0.25, 0.5)),
        *(("soft_zca", (("eps", _eps(setting, factor)),)) for factor in (1, 10)),
        *([("cluster_based", (("clusters", clusters), ("D", 1)))] if clusters > 1 else []),
        ("flow", ()),
    ]


def _eps(setting: VariantSetting, factor: float) -> float:
    """Return eps as a multiple of the mean variance, rounded to two digits."""
    return float(f"{factor * setting.variance:.1e}")


def _reduced_sizes(d: int) -> tuple[int, int]:
    """Return half and a quarter of d; from d = 64 on, rounded to multiples of 8, whose bits fill whole bytes."""
    unit = 8 if d >= 64 else 1
    half, quarter = (max(round(d / divisor / unit) * unit, FEWEST_DIMENSIONS) for divisor in (2, 4))
    return half, quarter


def _with_storages(variant: Variant, storages: Iterable[VectorStorage]) -> Iterator[Variant]:
    return (Variant(variant.method, variant.parameters, variant.dimensions, storage) for storage in storages)


def _drop_impossible(variants: Iterable[Variant], setting: VariantSetting) -> list[Variant]:
    """Drop repeated variants and those impossible for these vectors or this task."""
    return [
        variant
        for variant in dict.fromkeys(variants)
        if (variant.dimensions.size or 0) < setting.d
        and (variant.storage is not VectorStorage.RESCORED or setting.uses_search)
        # In few dimensions the factors of RaBitQ outweigh its bits.
        and (
            variant.storage is not VectorStorage.RABITQ
            or variant.bytes_of(setting.d) < bytes_of(VectorStorage.INT4, variant.dimensions.size or setting.d)
        )
        and (
            variant.storage is not VectorStorage.PQ
            or (setting.n >= PQ_CENTROIDS and pq_bytes(variant.dimensions.size or setting.d) is not None)
        )
    ]
