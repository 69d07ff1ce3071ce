"""Every post-processing method by its slug in ``isotropy.catalog.METHODS``."""

import inspect
from collections.abc import Callable
from typing import Any

from torch import Tensor

from isotropy.catalog import METHODS
from isotropy.postprocess import removal, whitening
from isotropy.postprocess.components import Components
from isotropy.postprocess.fitted import FittedMap
from isotropy.postprocess.flow import Flow, fit_flow

# The function that fits each method, and the type of map that it returns.
FITTERS: dict[str, tuple[Callable[..., FittedMap], type[FittedMap]]] = {
    "centring": (whitening.fit_centering, whitening.Scaling),
    "standardisation": (whitening.fit_standardisation, whitening.Scaling),
    "all_but_the_top": (removal.fit_all_but_the_top, removal.Removal),
    "weighted_removal": (removal.fit_weighted_removal, removal.Removal),
    "pca_whitening": (whitening.fit_pca_whitening, whitening.Whitening),
    "zca_whitening": (whitening.fit_zca_whitening, whitening.Whitening),
    "partial_whitening": (whitening.fit_partial_whitening, whitening.Whitening),
    "soft_zca": (whitening.fit_soft_zca, whitening.Whitening),
    "cluster_based": (removal.fit_cluster_based, removal.ClusterRemoval),
    "flow": (fit_flow, Flow),
}


def fit(
    method: str, points: Tensor, components: Callable[[], Components] | None = None, **parameters: Any
) -> FittedMap:
    """Fit a method of the catalog, by slug, on points [n, d].

    ``components`` returns the principal components of the points, for methods that need them; None computes them.
    ``parameters`` are those of the catalog; ``flow`` also takes ``progress``. Raises ValueError for an unknown method
    or parameter, a value out of range, or unsuitable points.
    """
    function, _ = _find_fitter(method)
    _, *names = inspect.signature(function).parameters
    accepted = [name for name in names if name != "components"]
    unknown = sorted(parameters.keys() - set(accepted))
    if unknown:
        raise ValueError(
            f"Expected parameters of {method} among {accepted}, got {unknown}: see isotropy.catalog.METHODS."
        )
    for parameter in METHODS[method].parameters:
        if parameter.name in parameters:
            value = parameters[parameter.name]
            if not parameter.accepts(value):
                noun = "a whole number" if parameter.is_integer else "a number"
                bounds = f"from {parameter.low}" + (" upwards" if parameter.high is None else f" to {parameter.high}")
                raise ValueError(
                    f"Expected {parameter.name} of {method} as {noun} {bounds}, got {value!r}: choose one, or leave "
                    "it out."
                )
    if components is not None and "components" in names:
        parameters["components"] = components()
    return function(points, **parameters)


def restore(method: str, state: dict[str, Tensor]) -> FittedMap:
    """Restore a map from its ``state()``; raise ValueError for an unknown method or another state."""
    _, map_type = _find_fitter(method)
    return map_type.from_state(state)


def _find_fitter(method: str) -> tuple[Callable[..., FittedMap], type[FittedMap]]:
    if method not in FITTERS:
        raise ValueError(f"Expected a method among {list(FITTERS)}, got {method!r}: see isotropy.catalog.METHODS.")
    return FITTERS[method]
