import json
from pathlib import Path

from app.results.archive.container import MANIFEST, OPTIONAL_MEMBERS, REQUIRED_MEMBERS
from docs.experiment_schema import schema

PUBLISHED = Path(__file__).parents[2] / "docs/experiment.schema.json"


def test_published_schema_is_current_and_covers_imports():
    document = json.dumps(schema(), indent=1, ensure_ascii=False) + "\n"
    assert PUBLISHED.read_text() == document, "run: python -m docs.experiment_schema > docs/experiment.schema.json"
    assert schema()["properties"].keys() == {MANIFEST, *REQUIRED_MEMBERS, *OPTIONAL_MEMBERS}
