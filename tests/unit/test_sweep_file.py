import pytest

from app.training.experiments import StudyRequest
from app.training.relaunch import read_document
from app.training.sweeps import SweepRequest
from isoscope.core.errors import InvalidError
from isoscope.files.yaml_document import read_yaml

SWEEP = f"dataset_id: {'a' * 32}\ntext_columns: [sentence]\nlabel_column: label\nmodel: minilm\n"
SEARCH = "search: {regularizer: cosreg"


@pytest.mark.parametrize(
    ("line", "field", "sentence"),
    [
        ("lambdas: [1e308]", "lambdas", "Expected lambdas.0 up to 1e+06, got '1e308'."),
        ("lambdas: [1.0e+308]", "lambdas", "Expected lambdas.0 up to 1e+06, got 1e+308."),
        ("lambdas: [true]", "lambdas", "Expected lambdas.0 as a number, got 'true'."),
        ("seeds: [true]", "seeds", "Expected seeds.0 as a whole number, got 'true'."),
        ("seeds: [yes]", "seeds", "Expected seeds.0 as a whole number, got 'true'."),
        ("seeds: [1e308]", "seeds", "as a whole number, got '1e308'."),
        ("zetas: [true]", "zetas", "Expected zetas.0 as a number, got 'true'."),
        ("epochs: true", "epochs", "Expected epochs as a whole number, got 'true'."),
        ("fixed_regularizers: {cosreg: 1e308}", "fixed_regularizers", "cosreg up to 1e+06, got '1e308'"),
        ("grid: {batch_size: [true]}", "grid", "Expected grid.batch_size.0 as a whole number, got 'true'."),
        (f"{SEARCH}, lam_high: 1e308}}", "lam_high", "Expected search.lam_high up to 1e+06, got '1e308'."),
        (f"{SEARCH}, lam_high: true}}", "lam_high", "Expected search.lam_high as a number, got 'true'."),
        (f"{SEARCH}, seed: true}}", "seed", "Expected search.seed as a whole number, got 'true'."),
    ],
)
def test_sweep_file_refuses_wrong_or_unbounded_numbers(line, field, sentence):
    kind = StudyRequest if line.startswith("search") else SweepRequest
    with pytest.raises(InvalidError) as refused:
        read_document(kind, read_yaml(SWEEP + line))
    assert refused.value.field == field
    assert sentence in refused.value.message
