import pytest

from app.db.config import RunConfig
from workers.training.run_spec import describe_smaller_batch, with_smaller_batch


def config(**changes):
    values = {
        "model": "m", "text_columns": ["t"], "label_column": "l", "label_names": ["a", "b"],
        "regularizer": "istar", "lam": 1, "seed": 0,
    }  # fmt: skip
    return RunConfig.model_validate(values | changes)


@pytest.mark.parametrize(
    ("rows", "accumulation", "expected"), [(16, 1, (8, 2)), (2, 4, (1, 8)), (15, 2, (5, 6)), (7, 1, (1, 7))]
)
def test_smaller_batches_keep_rows_per_step(rows, accumulation, expected):
    smaller = with_smaller_batch(config(batch_size=rows, accumulation=accumulation))
    assert (smaller.batch_size, smaller.accumulation) == expected
    assert smaller.batch_size * smaller.accumulation == rows * accumulation


def test_note_states_penalty_rows_and_single_row_cannot_shrink():
    assert with_smaller_batch(config(batch_size=1)) is None
    before = config(batch_size=16, processes=2)
    assert describe_smaller_batch(before, with_smaller_batch(before), 40) == (
        "Memory ran out with 32 rows per batch. From step 41 on, each batch has 16 rows, and each step averages 2 "
        "batches instead of 1, so that it still uses the same number of rows. From then on, each penalty is computed "
        "on 16 rows instead of 32, which changes its value."
    )


@pytest.mark.parametrize("changes", [{"regularizer": "none", "lam": 0}, {"regularizer": "spectrum"}])
def test_note_without_row_penalty_omits_it(changes):
    before = config(**changes)
    assert describe_smaller_batch(before, with_smaller_batch(before), 0).endswith(
        "so that it still uses the same number of rows."
    )
