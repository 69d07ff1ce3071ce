import pytest

from app.db.config import RunConfig
from app.training.models import ModelChoice
from app.training.sweeps import check_run
from isoscope.core.errors import InvalidError

MODEL = ModelChoice("tiny", "", 6)


def span_run(**changes):
    columns = {"text_columns": ["question", "context"], "label_column": "answers", "label_names": []}
    values = {"model": "tiny", "task": "span", "metric": "word_f1", "regularizer": "none", "lam": 0, "seed": 0}
    return RunConfig.model_validate(values | columns | changes)


@pytest.mark.parametrize(("grid", "field"), [((), "stride"), (("stride",), "grid")])
def test_stride_as_long_as_window_is_refused(grid, field):
    with pytest.raises(InvalidError) as refused:
        check_run(span_run(max_length=64, stride=64), MODEL, grid)
    assert refused.value == InvalidError("Expected a stride below the 64 tokens of a window, got 64.", field)
    check_run(span_run(max_length=64, stride=63), MODEL, grid)
