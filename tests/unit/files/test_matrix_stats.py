import numpy as np

from isoscope.files.matrix import MatrixStats


def census(*blocks):
    counted = MatrixStats()
    for block in blocks:
        counted.add(np.array(block))
    return counted


def test_rows_are_counted_by_what_is_wrong_with_them():
    counted = census(
        [[1.0, 2.0], [np.nan, 0.0], [0.0, 0.0], [np.inf, 1.0]],
        [[1.0, 2.0], [-0.0, 0.0], [2.0, 1.0], [np.nan, 0.0]],
    )
    assert (counted.n, counted.n_nonfinite, counted.n_zero) == (8, 3, 2)
    assert counted.n_duplicate == 2  # [1, 2] again, and zero with another sign


def test_duplicates_are_found_across_blocks_and_exactly():
    x = np.random.default_rng(0).standard_normal((5000, 16)).astype(np.float32)
    assert census(x[:3000], x[3000:]).n_duplicate == 0
    assert census(x, x[:123]).n_duplicate == 123


def test_nothing_counted_has_no_duplicates():
    assert MatrixStats().n_duplicate == 0
