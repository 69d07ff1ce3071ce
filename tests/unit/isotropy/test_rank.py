import math

import pytest
import torch

from isotropy.rank import alpha_req, effective_rank, explained_variance, rankme, stable_rank

NO_SPREAD = "The points have no energy: all are zero or, once centered, equal; or there are none."
NOT_FINITE = "The moments are not finite: some points are NaN, infinite or too large."


def spectrum(*values):
    return torch.tensor(values, dtype=torch.float64)


def every_score(values):
    return [
        effective_rank(values, "sigma"),
        effective_rank(values, "lambda"),
        rankme(values, 9),
        stable_rank(values),
        alpha_req(values, (1, 2)),
        *explained_variance(values, 2),
    ]


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0, 3.0])
@pytest.mark.parametrize("window", [(4, 100), (1, 2), (11, 50), (90, 500)])
def test_alpha_is_exponent_of_power_law_in_every_window(alpha, window):
    ranks = torch.arange(1, 121, dtype=torch.float64)
    assert alpha_req(7 * ranks**-alpha, window).value == pytest.approx(alpha, abs=1e-12)


def test_alpha_ignores_zero_eigenvalues_and_rankme_counts_up_to_n():
    values = torch.arange(1, 121, dtype=torch.float64) ** -1.5
    values[30:] = 0
    assert alpha_req(values).value == pytest.approx(1.5, rel=1e-12)
    values = spectrum(1, 0, 0, 0)
    weight = [1 + 1e-7, *[1e-7] * 3]
    for n in (1, 2, 4, 50):
        entropy = -sum(p * math.log(p) for p in weight[: min(n, 4)])
        assert rankme(values, n).value == pytest.approx(math.exp(entropy), rel=1e-12)


@pytest.mark.parametrize("scale", [1e-300, 1e-24, 1e24, 1e300])
def test_ranks_do_not_depend_on_scale(scale):
    values = spectrum(4, 3, 1, 0)
    for scaled, plain in zip(every_score(values * scale), every_score(values), strict=True):
        assert scaled.value == pytest.approx(plain.value, rel=1e-12)


@pytest.mark.parametrize(
    ("values", "reason"),
    [(spectrum(0, 0), NO_SPREAD), (spectrum(0, 0, 0, 0, 0), NO_SPREAD), (spectrum(math.nan, 1, 0), NOT_FINITE),
     (spectrum(math.inf, 1, 0), NOT_FINITE)],
)  # fmt: skip
def test_degenerate_spectra_have_no_rank(values, reason):
    assert {score.reason for score in every_score(values)} == {reason}
    empty = spectrum()
    assert effective_rank(empty, "sigma").reason == rankme(empty, 0).reason == stable_rank(empty).reason == NO_SPREAD


@pytest.mark.parametrize(("values", "count"), [((3, 2, 1), "are 0"), ((3, 2, 1, 1), "is 1"), ((3, 2, 1, 1, 0), "is 1")])
def test_alpha_needs_two_eigenvalues_in_its_window(values, count):
    assert alpha_req(spectrum(*values)).reason == (
        f"alpha-ReQ fits eigenvalues 4 to 100 and needs at least 2 of them above 0; there {count}."
    )


def test_invalid_window_and_directions_are_refused():
    for window in ((0, 5), (5, 5), (6, 5)):
        with pytest.raises(
            ValueError, match=r"Expected a window of ranks 1 <= first < last, got \(\d, 5\): a slope needs"
        ):
            alpha_req(spectrum(3, 2, 1), window)
    for K in (0, 4):
        with pytest.raises(ValueError, match=f"Expected 1 <= K <= d = 3, got {K}: there are d directions"):
            explained_variance(spectrum(3, 2, 1), K)
