"""The open format of an exported experiment as JSON Schema.

Run: python -m docs.experiment_schema > docs/experiment.schema.json
"""

import json
from typing import Any

from pydantic.json_schema import models_json_schema

from app.results.archive import container, records
from app.results.archive.sealed_records import OpeningRecord, SealedScoreRecord
from isoscope.files.strict import Strict

HOLDS: dict[str, tuple[type[Strict], ...]] = {
    container.MANIFEST: (records.Manifest,),
    container.EXPERIMENT: (records.ExperimentRecord, records.LoggedExperimentRecord),
    container.RUNS: (records.RunRecord, records.LoggedRunRecord),
    container.STEPS: (records.StepRecord,),
    container.RUN_FIGURES: (records.RunFigureRecord,),
    container.PREDICTIONS: (records.PredictionsRecord,),
    container.SEALED_SCORES: (SealedScoreRecord,),
    container.SEALED_PREDICTIONS: (records.PredictionsRecord,),
    container.OPENINGS: (OpeningRecord,),
}
"""What a file of an exported experiment holds: one record, or of ``.jsonl`` one a line."""


def schema() -> dict[str, Any]:
    """Return the schema of every file of an exported experiment, by the file's name."""
    every = list(dict.fromkeys(record for kinds in HOLDS.values() for record in kinds))
    refs, found = models_json_schema([(record, "validation") for record in every], ref_template="#/$defs/{model}")
    files = {
        name: {"anyOf": [refs[record, "validation"] for record in kinds]} if len(kinds) > 1 else
        refs[kinds[0], "validation"]
        for name, kinds in HOLDS.items()
    }  # fmt: skip
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Experiment",
        "description": "The files of an exported experiment, by name: one record each, or of .jsonl files one a line.",
        "type": "object",
        "properties": files,
        **found,
    }


if __name__ == "__main__":
    print(json.dumps(schema(), indent=1, ensure_ascii=False))
