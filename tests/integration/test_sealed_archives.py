import json

import pytest

from tests.archives import export, pack, send, unpack
from tests.sealed import DIGITS, add_predictions, add_sealed

SCORES, OPENINGS = "sealed/test_scores.jsonl", "sealed/openings.jsonl"
PREDICTIONS = "sealed/predictions.jsonl"


def opening(client, experiment_id):
    return client.get(f"/api/experiments/{experiment_id}/opening").json()


def open_by(client, experiment_id, choose):
    return client.post(f"/api/experiments/{experiment_id}/opening", json={"choose": choose, "by": "Ada"})


def import_archive(other_client, content):
    answer = send(other_client, content)
    assert answer.is_success, answer.detail
    return answer.json()["id"]


def test_import_is_as_sealed_as_export(client, other_client, context):
    experiment_id = add_sealed(context)
    add_predictions(context, experiment_id)
    content = export(client, experiment_id)
    files = unpack(content)
    assert len(files[PREDICTIONS].splitlines()) == 6
    assert files["predictions.jsonl"] == b""
    assert {name for name, data in files.items() if DIGITS.encode() in data} == {SCORES}
    assert OPENINGS not in files
    assert "sealed/" in files["README.txt"].decode()

    copied = import_archive(other_client, content)
    sealed = opening(other_client, copied)
    assert (sealed["state"], sealed["n"], sealed["scored_runs"], sealed["scores"]) == ("sealed", 500, 6, None)
    assert sealed["rows_sha256"] == opening(client, experiment_id)["rows_sha256"]
    page = other_client.get(f"/experiments/{copied}?tab=result").text
    assert "Freeze and open" in page
    assert DIGITS not in page
    run = other_client.get(f"/api/experiments/{copied}").json()["runs"][0]["id"]
    predictions = f"/api/runs/{run}/predictions?split=test"
    assert other_client.get(predictions).status_code == 409
    opened = open_by(other_client, copied, "lambda = 1").json()
    assert len(other_client.get(predictions).json()) == 4
    assert opened["scores"] == open_by(client, experiment_id, "lambda = 1").json()["scores"]


@pytest.mark.both_databases
def test_openings_are_imported_and_count_once(client, other_client, context):
    experiment_id = add_sealed(context)
    open_by(client, experiment_id, "lambda = 0")
    open_by(client, experiment_id, "lambda = 1")
    content = export(client, experiment_id)
    copied = import_archive(other_client, content)
    before, after = opening(client, experiment_id), opening(other_client, copied)
    assert (after["openings"], after["chosen"]) == (before["openings"], before["chosen"])
    assert "changed after the scores were shown" in other_client.get(f"/experiments/{copied}?tab=result").text
    other_client.delete(f"/api/experiments/{copied}")
    again = import_archive(other_client, content)
    assert opening(other_client, again)["opened_on_rows"] == 2
    assert open_by(other_client, again, "lambda = 0").json()["openings"][2]["opened_before"] == 2


def test_archive_without_test_split_has_no_sealed_files(client, context):
    from tests.archives import add_experiment  # noqa: PLC0415

    files = unpack(export(client, add_experiment(context)))
    assert not [name for name in files if name.startswith("sealed/")]
    assert not {"n_test", "test_sha256", "division"} & json.loads(files["experiment.json"])["dataset"].keys()


def test_hostile_openings_and_scores_are_refused(client, other_client, context):
    experiment_id = add_sealed(context)
    open_by(client, experiment_id, "lambda = 1")
    files = unpack(export(client, experiment_id))
    scores, openings = files[SCORES].splitlines(), json.loads(files[OPENINGS])

    def refused(**changed):
        answer = send(other_client, pack(files | {name.replace("__", "/"): data for name, data in changed.items()}))
        assert answer.status == "failed"
        return answer.detail

    def line(record, **changes):
        return json.dumps(record | changes).encode() + b"\n"

    assert "twice" in refused(**{SCORES: scores[0] + b"\n" + scores[0] + b"\n"})
    assert "not in runs.jsonl" in refused(**{SCORES: line(json.loads(scores[0]), run="f" * 32)})
    assert "numbered" in refused(**{OPENINGS: line(openings, number=2)})
    assert "not in the file" in refused(**{OPENINGS: line(openings, position=99)})
    assert OPENINGS in refused(**{OPENINGS: line(openings, rows_sha256="x")})
    assert "Expected" in refused(**{SCORES: line(json.loads(scores[0]), metrics={"accuracy": "high"})})
    assert other_client.get("/api/experiments").json() == []
