import numpy as np
import pytest
import torch

from isotropy.cloud import read_cloud
from isotropy.findings import Severity
from isotropy.findings.drift import SharedRows, drift
from isotropy.rows import Rows
from tests.planted import generated
from tests.points import random


def cloud(n, d=48):
    return generated(random(), n, d)


def shared(now, before):
    return SharedRows(torch.from_numpy(now), torch.from_numpy(before))


def with_copies(x):
    x[600:] = x[0]
    return x


@pytest.mark.slow
@pytest.mark.parametrize(
    "x",
    [
        with_copies(cloud(800)),
        np.repeat(cloud(25), 40, axis=0),
        np.sign(cloud(800, 16)),
        np.where(np.arange(800)[:, None] % 5, cloud(800), 0),
    ],
    ids=["one row repeated", "40 copies of each row", "signs", "zero rows"],
)
def test_rounding_that_reorders_copies_is_no_drift(x):
    again = (x + 1e-6 * x.std() * random(1).normal(size=x.shape)).astype(np.float32)
    assert (again != x).mean() > 0.1
    assert drift(read_cloud(Rows(again)), read_cloud(Rows(x)), shared(again, x)) is None
    mixed = random(2).permutation(x)
    assert drift(read_cloud(Rows(x)), read_cloud(Rows(x)), shared(mixed, x)).effect.measure == "top10_kept"


def test_shift_is_drift_and_new_sample_is_not():
    x = cloud(1600)
    first, second = read_cloud(Rows(x[:800])), read_cloud(Rows(x[800:]))
    assert drift(first, second) is None
    moved = drift(read_cloud(Rows(x[800:] + 0.7 * x.std())), first)
    assert (moved.slug, moved.severity, moved.effect.measure) == ("drift", Severity.WARNING, "energy_distance")
    assert 0.05 < moved.effect.after.value < 1


def test_shared_rows_are_compared_by_their_neighbors():
    x = cloud(600).astype(np.float64)
    reference = read_cloud(Rows(x))
    turned = x @ np.linalg.qr(random(1).normal(size=(48, 48)))[0]
    same = drift(read_cloud(Rows(x)), reference, shared(x, x))
    assert same is None
    # A rotation keeps all neighbors, and only the energy distance sees it.
    rotated = drift(read_cloud(Rows(turned + 1)), reference, shared(turned, x))
    assert rotated.effect.measure == "energy_distance"
    shuffled = drift(reference, reference, shared(x, random(2).permutation(x)))
    assert (shuffled.severity, shuffled.effect.measure) == (Severity.WARNING, "top10_kept")
    assert shuffled.effect.after.value == pytest.approx(10 / 599, abs=0.01)
