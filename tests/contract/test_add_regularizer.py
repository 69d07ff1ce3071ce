import inspect
from pkgutil import resolve_name

import pytest

from app.db.config import OPTIONS
from isotropy.catalog import MEASURES, REGULARIZERS, Regularizer
from tests.package_copies import copy_package, run_script

MODULE = """
import torch


class Norm(torch.nn.Module):
    def __init__(self, lam, *, bend=0.0, across_processes=False):
        super().__init__()
        self.lam, self.bend = lam, bend

    def forward(self, points):
        return self.lam * (points.square().mean() + self.bend)
"""
MEMBER = '    NORM = "norm"\n'
RECORD = """        RegularizerEntry(
            slug=Regularizer.NORM,
            name="norm penalty",
            term="λ · mean square",
            text="Keeps the vectors of the last layer short.",
            formula="loss + λ ‖X‖² / n d",
            details="It says nothing of directions.",
            source="Nobody (2026).",
            measures=("mean_cosine",),
            color="#123456",
            default_states=(Layers.LAST, TokenPooling.MEAN),
            make="isotropy.regularizers.norm:Norm",
            options={"zeta": "bend"},
        ),
"""
LOOK = """
from types import SimpleNamespace

import torch
from fastapi.testclient import TestClient
from pydantic import ValidationError
from transformers import AutoModelForSequenceClassification, BertConfig

from app.core.settings import Settings
from app.db.config import RunConfig, option_applies
from app.db.models import Dataset, DatasetOrigin
from app.figures import palette
from app.web.error_responses import to_invalid_error
from app.db.options.regularization import describe_regularizer
from app.results.labels import describe_penalty
from app.main import create_app
from app.training.sweep_form import LABELS, default_values, parse_sweep, sweep_controls
from app.results.search.conditions import find_field
from app.training.grid_expansion import build_product
from app.training.relaunch import to_document
from app.training.sweeps import SweepRequest
from isoscope.files.yaml_document import read_yaml, write_yaml
from isotropy.catalog import Regularizer
from workers.training.finish import format_model_card
from workers.training.penalties import make_penalties

NORM = Regularizer.NORM
needed = {"model": "m", "dataset_id": "d", "text_columns": ["a"], "label_column": "b"}
values = default_values(None, "m") | needed | {"lambdas": "1", "regularizers": ["norm"], "layers": "1", "zetas": "0.5"}

request = parse_sweep(values)
assert (request.regularizers, request.zetas) == ([NORM], [0.5])
_, visible = sweep_controls(values, has_gpu=True)
assert "zetas" in visible and "entropy_bars" not in visible
settings = Settings(data_dir="data", sample=False)
with TestClient(create_app(settings), base_url="http://localhost") as client:
    with client.app.state.context.sessions.begin() as session:
        session.add(Dataset(name="d", origin=DatasetOrigin.UPLOAD, n_train=100, n_validation=40, columns=[]))
    form = client.get("/experiments/new", params={"regularizers": "norm", "zetas": "0.5"}).text
assert 'value="norm" checked' in form and "Norm penalty" in form and "λ · mean square" in form
assert "It says nothing of directions." in form and "Nobody (2026)." in form and 'href="/measures#mean_cosine"' in form
assert LABELS["fixed_norm"] == "λ of norm penalty"

assert "norm" in SweepRequest.model_json_schema()["$defs"]["Regularizer"]["enum"]
try:
    SweepRequest(**needed, regularizers=["normal"])
except ValidationError as error:
    assert "norm" in to_invalid_error(error.errors()).message.split("got")[0]
assert read_yaml(write_yaml(to_document(request), {}))["regularizers"] == ["norm"]
assert "norm penalty × 1 λ × 2 ζ" in build_product({"zeta": [0.1, 0.2]}, [NORM], frozenset(), [1.0], [0]).describe()

assert describe_regularizer(NORM, 1.0) == "norm penalty, λ = 1"
assert "norm" in str(find_field("regularizer"))
assert palette.METHODS[NORM] == "#123456"

training = {"model": "m", "text_columns": ["a"], "label_column": "b", "label_names": ["x", "y"], "seed": 0}
config = RunConfig(**training, regularizer="norm", lam=2.0, zeta=0.5, layers=[1], fixed_regularizers={"cosreg": 1})
assert option_applies("zeta", config.penalty_weights, None) and not option_applies("token_fraction", [NORM], None)
assert describe_penalty(config).startswith("λ · mean square of the batches at λ = 2 and ζ = 0.5, and ")

torch.manual_seed(0)
model = AutoModelForSequenceClassification.from_config(
    BertConfig(vocab_size=20, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=16)
).eval()
alone = config.model_copy(update={"fixed_regularizers": {}})
batch = {"input_ids": torch.arange(12).view(3, 4), "attention_mask": torch.ones(3, 4, dtype=torch.long)}
outputs = model(**batch, output_hidden_states=True)
seen = outputs.hidden_states[1].mean(1)
torch.testing.assert_close(make_penalties(alone, model)(outputs, batch, 0), 2 * (seen.square().mean() + 0.5))

order = SimpleNamespace(config=config, dataset=SimpleNamespace(name="d"), experiment_name="e")
results = SimpleNamespace(metrics={}, metric_reasons={}, n_validation=2, selection=None)
evaluation = SimpleNamespace(results=results, isoscore_star=SimpleNamespace(value=1.0, reason=None))
card = format_model_card(order, {}, evaluation)
assert "- norm penalty with lambda = 2 and zeta = 0.5" in card and "- CosReg with lambda = 1\\n" in card
"""


@pytest.mark.long
@pytest.mark.slow
def test_added_regularizer_appears_everywhere_and_trains(tmp_path, migrated):
    copy_package(tmp_path, "isotropy")
    (tmp_path / "isotropy/regularizers/norm.py").write_text(MODULE)
    file = tmp_path / "isotropy/catalog/regularizers.py"
    members, mark, tail = file.read_text().partition("\n\nclass TokenPooling(")
    records, end, last = tail.rpartition("    )\n}\n")
    file.write_text(f"{members}{MEMBER}{mark}{records}{RECORD}{end}{last}")
    run_script(tmp_path, LOOK)


def test_entries_name_existing_classes_arguments_and_options():
    assert set(REGULARIZERS) == set(Regularizer) - {Regularizer.NONE}
    for slug, penalty in REGULARIZERS.items():
        assert penalty.slug is slug
        parameters = inspect.signature(resolve_name(penalty.make)).parameters
        assert {"lam", *filter(None, penalty.options.values())} <= set(parameters)
        assert ("across_processes" in parameters) == (penalty.default_states is not None)
        assert set(penalty.options) <= set(OPTIONS)
        assert set(penalty.measures) <= set(MEASURES)
