import pytest

from tests.package_copies import copy_package, run_script

FUNCTION = """
def _radius(cloud: Cloud) -> MeasureResult:
    return MeasureResult(Score(float(cloud.sample.norm(dim=1).mean()) * cloud.unit), cloud.n, {"parts": {"rows": 2.0}})


"""
BINDING = '    "radius": _radius,\n'
RECORD = """    Measure(
        slug="radius",
        group="spread",
        name="Radius",
        symbol="r",
        range="[0, ∞), in units of the points",
        formula="Σ ‖x‖ / n",
        meaning="How far rows are from the origin.",
        pitfall="It says nothing of directions.",
        citation="Nobody (2026). Radii.",
        higher_means="neither",
        error="none",
        shown_in=("report", "layers", "lab", "lab figures", "training"),
        count_details=("rows",),
        per_text=True,
        training_caution="read it twice",
    ),
"""
LOOK = """
from types import SimpleNamespace

import numpy as np
from pydantic import TypeAdapter

from app.db.models import Embedding, Measurement
from app.embeddings.readings import list_headlines, tabulate_readings
from app.embeddings.encoding_layers import DEFAULT_MEASURES
from app.postprocess.trial import list_comparisons
from app.figures.labels import heading
from app.results.labels import TRAINING_MEASURES, caution_of, title_of, uses_text_vectors
from app.embeddings.api.measures import MeasureOut, MeasureSlug, list_measures
from app.results.logged_runs import MEASURES as LOGGED
from isoscope.cli.printing import lines_by_group
from isotropy.cloud import read_cloud
from isotropy.report import measure
from isotropy.rows import Rows
from workers.postprocess import FIGURE_SLUGS, MEASURED_SLUGS, MOMENT_SLUGS

points = np.eye(4)[:, :3] * 2
result = measure(read_cloud(Rows(points)), ["radius"])["radius"]
assert abs(result.score.value - 1.5) < 1e-12
try:
    measure(read_cloud(Rows(points)), ["radii"])
except ValueError as error:
    assert "'radii': choose among" in str(error) and "radius" in str(error)

row = Measurement(measure="radius", value=result.score.value, n=4, detail=result.detail)
embedding = Embedding(n=4, d=3, measurements=[row])
(head,) = list_headlines(embedding)
assert (head.measure.name, head.range, head.items[0].value) == ("Radius", "at least 0, in units of the points", 2)
assert tabulate_readings(embedding).rows[0][:3] == ["radius", None, 1.5]
assert all("radius" in slugs for slugs in (DEFAULT_MEASURES, MEASURED_SLUGS, MOMENT_SLUGS, FIGURE_SLUGS))

stored = {"radius": {"measure": "radius", "value": 1.5, "n": 4}}
(compared,) = list_comparisons(SimpleNamespace(results={"before": stored, "after": stored, "in_sample": stored}))
assert compared.measure.name == "Radius" and compared.in_sample.value == 1.5

assert "radius" in TRAINING_MEASURES and "radius" in LOGGED and TRAINING_MEASURES[0] == "isoscore_star"
assert (title_of("radius"), caution_of("radius"), uses_text_vectors("radius")) == ("Radius", ", read it twice", True)
assert heading("radius_mean") == "Radius mean"

described = {entry.slug: MeasureOut.model_validate(entry, from_attributes=True) for entry in list_measures()}
assert described["radius"].shown_in == ["report", "layers", "lab", "lab figures", "training"]
assert "radius" in TypeAdapter(MeasureSlug).json_schema()["anyOf"][0]["enum"]
assert any("Radius" in line for line in lines_by_group({"radius": "1.5"}))
"""


def insert_before(file, mark, text):
    before, separator, after = file.read_text().rpartition(mark)
    assert separator
    file.write_text(f"{before}{text}{separator}{after}")


@pytest.mark.long
@pytest.mark.slow
def test_added_measure_appears_everywhere(tmp_path):
    copy_package(tmp_path, "isotropy")
    insert_before(tmp_path / "isotropy/report.py", "MEASURES: dict", FUNCTION)
    insert_before(tmp_path / "isotropy/report.py", "}\n", BINDING)
    insert_before(tmp_path / "isotropy/catalog/spread.py", ")\n", RECORD)
    run_script(tmp_path, LOOK)
