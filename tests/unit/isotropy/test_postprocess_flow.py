import math

import pytest
import torch
from scipy.stats import kurtosis, skew

from isotropy.postprocess.flow import fit_flow
from isotropy.postprocess.whitening import fit_pca_whitening


def skewed(n=2000, d=4, seed=0):
    noise = torch.randn(n, d, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    noise[:, 1:] += noise[:, :1] ** 2
    mixing, _ = torch.linalg.qr(torch.randn(d, d, dtype=torch.float64, generator=torch.Generator().manual_seed(9)))
    return 2 + noise @ mixing


@pytest.fixture(scope="module")
def fitted():
    return fit_flow(skewed(), steps=300, layers=4, hidden=16, rate=5e-3)


@pytest.mark.slow
def test_inverse_restores_points_and_log_det_matches_jacobian(fitted):
    new = skewed(200, seed=1)
    torch.testing.assert_close(fitted.inverse(fitted.apply(new)), new, rtol=1e-10, atol=1e-10)
    low = new.float()
    torch.testing.assert_close(fitted.inverse(fitted.apply(low)), low, rtol=1e-5, atol=1e-5)
    with pytest.raises(ValueError, match=r"Expected points as a floating tensor \[n, 4\], got \[3, 5\]"):
        fitted.inverse(torch.zeros(3, 5))
    with pytest.raises(ValueError, match=r"Expected points as a floating tensor \[n, 4\], got \[3, 5\]"):
        fitted.log_likelihood(torch.zeros(3, 5))
    for point in skewed(5, seed=1):
        jacobian = torch.autograd.functional.jacobian(lambda x: fitted.transform(x[None])[0][0], point)
        _, log_det = fitted.transform(point[None])
        assert float(log_det) == pytest.approx(float(torch.linalg.slogdet(jacobian).logabsdet), rel=1e-10)


@pytest.mark.slow
def test_density_integrates_to_one_and_starts_gaussian():
    points = skewed(300, d=2)
    fitted = fit_flow(points, steps=60, layers=2, hidden=8, rate=5e-3)
    side = torch.linspace(-30, 40, 1401, dtype=torch.float64)
    grid = torch.cartesian_prod(side, side)
    assert float(fitted.log_likelihood(grid).exp().sum()) * 0.05**2 == pytest.approx(1, abs=0.01)
    points = skewed()
    trained = points[torch.randperm(2000, generator=torch.Generator().manual_seed(0))[200:]]
    normal = torch.distributions.MultivariateNormal(trained.mean(0), trained.T.cov())
    torch.testing.assert_close(fit_flow(points, steps=0).log_likelihood(points), normal.log_prob(points))


def test_training_raises_likelihood_and_gaussianity_of_new_rows(fitted):
    whitening, new = fit_flow(skewed(), steps=0), skewed(seed=1)
    assert fitted.log_likelihood(new).mean() > whitening.log_likelihood(new).mean() + 0.5
    new = skewed(seed=1)
    whitened, images = (map_.apply(new).numpy() for map_ in (fit_pca_whitening(skewed()), fitted))
    assert abs(skew(whitened)).max() > 2
    assert abs(skew(images)).max() < 0.5
    assert abs(kurtosis(images)).max() < abs(kurtosis(whitened)).max() / 3


@pytest.mark.slow
def test_seed_fixes_flow_and_divergence_gives_whitening():
    flows = [fit_flow(skewed(200), steps=30, layers=2, hidden=4, seed=seed).apply(skewed(9)) for seed in (0, 0, 1)]
    assert torch.equal(flows[0], flows[1])
    assert not torch.equal(flows[0], flows[2])
    points = skewed(100)
    diverged, untrained = (fit_flow(points, steps=steps, rate=1e3, layers=1, hidden=2) for steps in (200, 0))
    assert torch.equal(diverged.apply(points), untrained.apply(points))


def test_gaussian_points_and_progress_errors_end_training_early():
    steps_done = []
    points = torch.randn(300, 3, generator=torch.Generator().manual_seed(0))
    fit_flow(points, steps=10_000, layers=1, hidden=4, progress=lambda step, steps: steps_done.append((step, steps)))
    assert steps_done[:2] == [(1, 10_000), (2, 10_000)]
    assert 100 <= len(steps_done) < 5000

    def cancel(step, _):
        if step == 3:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        fit_flow(skewed(50), progress=cancel)


def test_more_dimensions_than_points_stay_invertible():
    points, new = skewed(20, d=30), 2 + skewed(50, d=30, seed=1)
    fitted = fit_flow(points, steps=40, layers=2, hidden=4)
    torch.testing.assert_close(fitted.inverse(fitted.apply(new)), new, rtol=1e-9, atol=1e-9)
    assert fitted.scale.max() == fitted.scale[:17].max()
    assert not fitted.scale[17:].sub(fitted.scale.min()).any()


def test_few_or_equal_points_and_invalid_arguments_are_refused():
    for n, d in ((2, 4), (9, 1)):
        with pytest.raises(ValueError, match=rf"Expected at least 3 points of 2 dimensions to .*, got \[{n}, {d}"):
            fit_flow(skewed(n, d))
    with pytest.raises(
        ValueError, match="Expected points that differ to fit a flow on, got all equal: they have no dens"
    ):
        fit_flow(torch.ones(9, 4))
    for name, value in (("steps", -1), ("layers", 0), ("hidden", 0), ("rate", 0.0), ("rate", math.inf)):
        with pytest.raises(ValueError, match=f"Expected steps of at least 0.*{name} = {value}"):
            fit_flow(skewed(9), **{name: value})
