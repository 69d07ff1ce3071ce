import numpy as np
import pytest

from benchmarks.outlier_limit import KINDS, LEVEL, CaseValues, simulate_case, statistic
from isotropy.cloud import read_cloud
from isotropy.findings import findings_of
from isotropy.findings.outlier_rows import LIMIT
from isotropy.rows import Rows


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_healthy_clouds_stay_below_limit(kind):
    assert simulate_case(kind, 100, 8, simulations=60).share <= 1 / 60


@pytest.mark.parametrize("far", [1.0, 200.0])
def test_statistic_agrees_with_finding(far):
    x = np.random.default_rng(0).normal(size=(200, 4))
    x[17] *= far
    slugs = [finding.slug for finding in findings_of(read_cloud(Rows(x)))]
    assert (statistic(x) > LIMIT) == ("outlier_rows" in slugs) == (far > 1)


def test_exponential_tail_quantile_is_estimated():
    values = np.random.default_rng(0).exponential(size=20_000)
    assert CaseValues(KINDS[0], 1, 1, values).point == pytest.approx(-np.log(LEVEL), rel=0.05)
    mostly_zero = np.where(np.random.default_rng(1).random(20_000) < 0.02, values, 0)
    assert CaseValues(KINDS[0], 1, 1, mostly_zero).point == pytest.approx(np.log(0.02 / LEVEL), rel=0.15)
