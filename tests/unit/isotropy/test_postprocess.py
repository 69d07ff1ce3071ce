import dataclasses
import inspect
import subprocess
import sys

import numpy as np
import pytest
import torch
from safetensors.torch import load, save

from isotropy.catalog import METHODS
from isotropy.isoscore import isoscore
from isotropy.postprocess import whitening
from isotropy.postprocess.components import principal_components
from isotropy.postprocess.methods import FITTERS, fit, restore
from isotropy.postprocess.removal import fit_all_but_the_top, fit_weighted_removal
from tests.rounding import tolerance

# Parameters with which a method can be fitted quickly on a few points.
SMALL = {"cluster_based": {"clusters": 2}, "flow": {"steps": 20, "layers": 2, "hidden": 4}}
# An upper bound for a map of 5 dimensions: a rotation, two layers of a flow with 4 hidden units.
MAP_ROUNDINGS = 100
CONDITION = 100  # an upper bound for how much a small map amplifies rounding


def cloud(n=60, d=5, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    mixing = torch.randn(d, d, dtype=torch.float64, generator=generator)
    return (3 + torch.randn(n, d, dtype=torch.float64, generator=generator) @ mixing).to(dtype)


def fitted(method, points):
    return fit(method, points, **SMALL.get(method, {}))


every_method = pytest.mark.parametrize("method", METHODS)


def test_catalog_and_code_have_same_methods():
    assert list(FITTERS) == list(METHODS)
    assert [method.slug for method in METHODS.values()] == list(METHODS)
    parameters = [parameter for method in METHODS.values() for parameter in method.parameters]
    assert {parameter.name for parameter in parameters if not parameter.is_integer} == {"eps", "gamma", "rate"}


@every_method
def test_catalog_describes_every_parameter_of_method(method):
    function, _ = FITTERS[method]
    general_parameters = {"points", "components", "progress"}
    signature = inspect.signature(function).parameters.items()
    parameters = {name: parameter.default for name, parameter in signature if name not in general_parameters}
    assert {parameter.name: parameter.default for parameter in METHODS[method].parameters} == parameters
    described = METHODS[method]
    texts = [text for text in dataclasses.asdict(described).values() if isinstance(text, str)]
    texts += [text for parameter in described.parameters for text in (parameter.range, parameter.meaning)]
    assert all(text.strip() and "\n" not in text for text in texts)
    assert "(20" in described.citation
    for parameter in described.parameters:
        assert parameter.accepts(parameter.default)


@pytest.mark.long
@pytest.mark.slow
def test_methods_import_scikit_learn_lazily():
    code = "import sys, isotropy.postprocess.methods; print('sklearn' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "False"


@every_method
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_images_keep_dtype_and_half_becomes_float32(method, dtype):
    images = fitted(method, cloud(dtype=dtype)).apply(cloud(n=7, dtype=dtype, seed=1))
    assert images.shape == (7, 5)
    assert images.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    assert images.isfinite().all()
    assert images.any()


@every_method
def test_map_is_restored_from_safetensors(method):
    original, new = fitted(method, cloud()), cloud(n=9, seed=1)
    restored = restore(method, load(save(original.state())))
    assert type(restored) is type(original)
    assert restored.state().keys() == original.state().keys()
    assert all(torch.equal(restored.state()[name], tensor) for name, tensor in original.state().items())
    # Memory alignment changes the summation order of products.
    images = original.apply(new)
    atol = tolerance(MAP_ROUNDINGS, torch.float64, float(images.abs().max()) * CONDITION)
    torch.testing.assert_close(restored.apply(new), images, rtol=0, atol=atol)


@every_method
def test_fitting_keeps_points_and_degenerate_images_are_finite(method):
    points = cloud()
    before = points.clone()
    fitted(method, points).apply(points)
    assert torch.equal(points, before)
    assert fitted(method, cloud()).apply(torch.empty(0, 5)).shape == (0, 5)
    points = cloud().repeat(2, 1)
    points[:, 2] = 0.1
    points[:10] = 0
    images = fitted(method, points).apply(points)
    assert images.isfinite().all()


@pytest.mark.parametrize("method", [method for method in METHODS if method != "flow"])
@pytest.mark.parametrize("points", [cloud(n=1), cloud(n=1).repeat(3, 1), torch.zeros(4, 5), cloud(n=2, d=1)[:1]])
def test_points_without_spread_are_mapped_to_zero(method, points):
    # 2 clusters of 1 point are refused.
    parameters = {"clusters": 1} if method == "cluster_based" else {}
    assert not fit(method, points, **parameters).apply(points).any()


@every_method
@pytest.mark.parametrize("scale", [1e12, 1e-12])
def test_huge_and_tiny_points_have_finite_nonzero_images(method, scale):
    points = cloud(dtype=torch.float32) * scale
    images = fitted(method, points).apply(points)
    assert images.isfinite().all()
    assert images.any()


@every_method
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_nonfinite_points_are_refused(method, bad):
    points = cloud()
    map_of_points = fitted(method, points)
    points[3, 1] = bad
    for refused in (lambda: fitted(method, points), lambda: map_of_points.apply(points)):
        with pytest.raises(ValueError, match="Expected finite points, got NaN or infinity: leave those rows out first"):
            refused()


@every_method
def test_empty_and_mismatched_points_are_refused(method):
    with pytest.raises(ValueError, match="Expected at least 1 point to fit on, got 0: pass the rows to learn from"):
        fitted(method, torch.empty(0, 5))
    map_of_points = fitted(method, cloud())
    with pytest.raises(ValueError, match=r"Expected points as a floating tensor \[n, 5\], got \[60, 4\]"):
        map_of_points.apply(cloud(d=4))


@pytest.mark.parametrize("method", [method for method in METHODS if method != "centring"])
def test_points_with_overflowing_squares_are_refused(method):
    points = 1e200 * cloud()
    with pytest.raises(ValueError, match="Expected points whose squares fit float64, got larger ones: scale them down"):
        fitted(method, points)


def test_unknown_methods_parameters_and_states_are_refused():
    for refused in (lambda: fit("magic", cloud()), lambda: restore("magic", {})):
        with pytest.raises(
            ValueError, match=r"Expected a method among \['centring', .*\], got 'magic': see isotropy.c"
        ):
            refused()
    with pytest.raises(ValueError, match=r"Expected parameters of soft_zca among \['eps'\], got \['D', 'zeta'\]: see "):
        fit("soft_zca", cloud(), zeta=1, D=2)
    state = fit("zca_whitening", cloud()).state()
    with pytest.raises(
        ValueError, match=r"Expected the tensors \['mean', 'scale'\], got \['matrix', 'mean'\]: pass the"
    ):
        restore("centring", state)


A_WHOLE_NUMBER_FROM_0 = "a whole number from 0 upwards"


@pytest.mark.parametrize(
    ("method", "name", "value", "expected"),
    [
        ("all_but_the_top", "D", 1.5, A_WHOLE_NUMBER_FROM_0),
        ("weighted_removal", "D", -1, A_WHOLE_NUMBER_FROM_0),
        ("cluster_based", "D", "2", A_WHOLE_NUMBER_FROM_0),
        ("cluster_based", "clusters", 2.5, "a whole number from 1 upwards"),
        ("cluster_based", "clusters", None, "a whole number from 1 upwards"),
        ("cluster_based", "seed", -1, "a whole number from 0 to 4294967295"),
        ("flow", "seed", 2**32, "a whole number from 0 to 4294967295"),
        ("flow", "steps", 100_001, "a whole number from 0 to 100000"),
        ("flow", "layers", 33, "a whole number from 1 to 32"),
        ("flow", "layers", True, "a whole number from 1 to 32"),
        ("flow", "hidden", 4097, "a whole number from 1 to 4096"),
        ("flow", "rate", 1.5, "a number from 1e-06 to 1.0"),
        ("flow", "rate", float("nan"), "a number from 1e-06 to 1.0"),
        ("soft_zca", "eps", float("inf"), "a number from 0.0 upwards"),
        ("soft_zca", "eps", True, "a number from 0.0 upwards"),
    ],
)
def test_parameter_out_of_range_is_refused(method, name, value, expected):
    with pytest.raises(ValueError, match=r"^Expected") as refused:
        fit(method, cloud(), **{name: value})
    sentence = f"Expected {name} of {method} as {expected}, got {value!r}: choose one, or leave it out."
    assert str(refused.value) == sentence


def test_range_ends_numpy_numbers_and_defaults_are_accepted():
    assert fit("all_but_the_top", cloud(), D=None).directions.shape == (1, 5)
    assert fit("all_but_the_top", cloud(), D=np.int64(2)).directions.shape == (2, 5)
    assert not fit("weighted_removal", cloud(), D=0).weights.tolist()
    zca = fit("zca_whitening", cloud()).matrix
    assert torch.equal(fit("soft_zca", cloud(), eps=0).matrix, zca)
    assert torch.equal(fit("soft_zca", cloud(), eps=np.float32(0)).matrix, zca)
    assert fit("flow", cloud(), steps=1, layers=32, hidden=1, rate=1, seed=2**32 - 1).inner.shape == (32, 1, 2)


@pytest.mark.parametrize(
    ("method", "name", "shape", "expected"),
    [
        ("centring", "scale", (4,), [5]),
        ("centring", "mean", (), [1]),
        ("all_but_the_top", "weights", (3,), [1]),
        ("all_but_the_top", "directions", (5,), ["D", 5]),
        ("zca_whitening", "matrix", (5, 4), [5, 5]),
        ("cluster_based", "centroids", (3, 5), [2, 5]),
        ("flow", "inner", (2, 4, 3), [2, 4, 2]),
        ("flow", "outer", (2, 5, 4), [2, 6, 4]),
        ("flow", "shift", (3, 5), [2, 5]),
    ],
)
def test_inconsistent_tensor_shapes_are_refused(method, name, shape, expected):
    state = fitted(method, cloud()).state() | {name: torch.zeros(shape)}
    sizes_text = f"[{', '.join(map(str, expected))}]"
    with pytest.raises(ValueError, match=r"^Expected") as refused:
        restore(method, state)
    sentence = f"Expected {name} as {sizes_text} to match the other tensors, got {list(shape)}: pass it unchanged."
    assert str(refused.value) == sentence


@every_method
def test_given_components_are_reused(method):
    points, calls = cloud(), []

    def compute():
        calls.append(method)
        return principal_components(points)

    settings = SMALL.get(method, {})
    separate, shared = fit(method, points, **settings), fit(method, points, compute, **settings)
    assert len(calls) == ("components" in inspect.signature(FITTERS[method][0]).parameters)
    assert all(torch.equal(tensor, shared.state()[name]) for name, tensor in separate.state().items())


def gaussian(n, d, seed=0, dtype=torch.float64):
    return torch.randn(n, d, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).to(dtype)


def variances_of(*variances):
    arms = torch.tensor(variances, dtype=torch.float64).sqrt().diag() * ((2 * len(variances) - 1) / 2) ** 0.5
    return torch.cat([arms, -arms])


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_constant_dimension_standardizes_to_zero(dtype):
    points = gaussian(10_000, 3, dtype=dtype)
    points[:, 1] = 0.1
    new = gaussian(5, 3, seed=1, dtype=dtype)
    images = whitening.fit_standardisation(points).apply(new)
    assert not images[:, 1].any()
    assert images[:, [0, 2]].all()


def test_rounding_noise_counts_as_constant():
    points = gaussian(50, 2, dtype=torch.float32)
    points[:, 0] = 1000 * (1 + torch.arange(50) % 2 * torch.finfo(torch.float32).eps)
    assert points[:, 0].unique().numel() == 2
    assert not whitening.fit_standardisation(points).apply(points)[:, 0].any()
    assert not whitening.fit_pca_whitening(points).apply(points)[:, 1].any()
    plane = gaussian(500, 2) @ gaussian(2, 6, seed=1)
    fitted = whitening.fit_zca_whitening((1000 + plane).float())
    assert torch.linalg.matrix_rank(fitted.matrix) == 2
    torch.testing.assert_close(whitening.fit_zca_whitening(1000 + plane).matrix, fitted.matrix, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(("d", "D"), [(3, 1), (199, 1), (200, 2), (768, 7)])
@pytest.mark.parametrize("fit", [fit_all_but_the_top, fit_weighted_removal])
def test_default_removes_one_in_100_dimensions(fit, d, D):
    assert fit(gaussian(20, d)).directions.shape == (D, d)


def test_all_but_the_top_removes_strongest_components():
    fitted = fit_all_but_the_top(5 + variances_of(1, 9, 4), D=2)
    images = fitted.apply(5 + torch.tensor([[7.0, 8.0, 9.0]], dtype=torch.float64))
    torch.testing.assert_close(images, torch.tensor([[7.0, 0.0, 0.0]], dtype=torch.float64))
    points = gaussian(30, 4)
    torch.testing.assert_close(
        fit_all_but_the_top(points, 0).apply(points), whitening.fit_centering(points).apply(points)
    )
    assert fit_all_but_the_top(points, 4).apply(points).abs().max() < 1e-14


def test_directions_beyond_rank_are_not_removed():
    points = gaussian(3, 6)
    fitted = fit_all_but_the_top(points, 5)
    assert fitted.directions.shape == (2, 6)
    new = gaussian(1, 6, seed=1)
    centered = new - fitted.mean
    squares = fitted.apply(new).norm() ** 2 + (fitted.directions @ centered.T).norm() ** 2
    torch.testing.assert_close(squares, centered.norm() ** 2)


@pytest.mark.parametrize("D", [-1, 5])
@pytest.mark.parametrize("fit", [fit_all_but_the_top, fit_weighted_removal])
def test_too_many_components_are_refused(fit, D):
    with pytest.raises(ValueError, match=f"Expected 0 <= D <= d = 4 components to remove, got {D}: there are d direct"):
        fit(gaussian(30, 4), D)


@pytest.mark.parametrize("D", [3, 4])
def test_weights_without_other_variances_level_to_smallest(D):
    points = torch.nn.functional.pad(variances_of(16, 9, 4), (0, 1))
    fitted = fit_weighted_removal(points, D)
    assert fitted.weights.tolist() == pytest.approx([1 / 2, 1 / 3, 0], abs=1e-12)


def test_whitening_few_points_keeps_only_their_directions():
    points = gaussian(4, 10)
    pca, zca = whitening.fit_pca_whitening(points), whitening.fit_zca_whitening(points)
    assert torch.linalg.matrix_rank(pca.matrix) == torch.linalg.matrix_rank(zca.matrix) == 3
    assert not pca.apply(points)[:, 3:].any()
    for fitted in (pca, zca):
        assert isoscore(fitted.apply(points)).value == pytest.approx((3 - 1) / (10 - 1), rel=1e-9)
        assert fitted.apply(1000 * gaussian(1, 10, seed=1)).abs().max() < 1e5
    spread = torch.linalg.eigvalsh(torch.cov(zca.apply(points).T))
    assert spread.tolist() == pytest.approx([0] * 7 + [1] * 3, abs=1e-9)


@pytest.mark.parametrize("n", [500, 60])
@pytest.mark.parametrize(("dtype", "far"), [(torch.bfloat16, 70), (torch.float16, 1000)])
def test_far_dimension_in_half_precision_costs_only_itself(dtype, far, n):
    points = 0.3 * gaussian(n, 40 if n == 500 else 128)
    points[:, 5] = far
    components = principal_components(points.to(dtype))
    assert components.rank == (39 if n == 500 else 59)
    assert components.directions[:, 5].abs().max() < 1e-6
    points[:, 5] += 20 * gaussian(n, 1, seed=1)[:, 0]
    components = principal_components(points.to(dtype))
    assert components.rank == (40 if n == 500 else 59)
    assert components.directions[0, 5] > 0.99


@pytest.mark.parametrize("n", [6, 30, 1000])
def test_directions_of_rounding_noise_are_dropped(n):
    plane = gaussian(n, 2) @ gaussian(2, 300, seed=1)
    for dtype in (torch.float32, torch.float16):
        assert principal_components((100 + plane).to(dtype)).rank == 2
        assert principal_components((plane + 100 * gaussian(1, 300, seed=2)).to(dtype)).rank == 2


def test_soft_zca_is_zca_at_eps_0_and_scaling_at_large_eps():
    points = gaussian(40, 3)
    torch.testing.assert_close(whitening.fit_soft_zca(points, 0).matrix, whitening.fit_zca_whitening(points).matrix)
    scaling = 1e-6 * torch.eye(3, dtype=torch.float64)
    torch.testing.assert_close(whitening.fit_soft_zca(points, 1e12).matrix, scaling, rtol=1e-9, atol=1e-15)
    points = torch.nn.functional.pad(gaussian(40, 2), (0, 1))
    images = whitening.fit_soft_zca(points, 0.25).apply(torch.tensor([[0.0, 0.0, 3.0]], dtype=torch.float64))
    assert images[0, 2] == pytest.approx(6)


@pytest.mark.parametrize("gamma", [-1e-9, 1.1, float("nan")])
def test_invalid_gamma_is_refused(gamma):
    with pytest.raises(ValueError, match=f"Expected gamma from 0 to 1, got {gamma}: 0 only centers, 1 whitens fully."):
        whitening.fit_partial_whitening(gaussian(9, 2), gamma)


@pytest.mark.parametrize("eps", [-1e-9, float("inf"), float("nan")])
def test_invalid_eps_is_refused(eps):
    with pytest.raises(
        ValueError, match=f"Expected eps of at least 0, finite, got {eps}: 0 whitens fully, more whiten"
    ):
        whitening.fit_soft_zca(gaussian(9, 2), eps)
