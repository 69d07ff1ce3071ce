import io
import itertools
import json
import re
import zipfile

import pytest

from app import routes
from app.db.models import RunStatus
from app.results.pages.experiments import TABS
from isoscope.client import RefusedError
from tests.archives import export, pack, send, unpack
from tests.contract.test_pages_and_api import list_routes
from tests.factories import add_experiment, run_row
from tests.sealed import DIGITS, PLANTED, STEP, add_predictions, add_sealed, run_ids

SCORES, OPENINGS = "sealed/test_scores.jsonl", "sealed/openings.jsonl"
PREDICTIONS = "sealed/predictions.jsonl"
SEALED = re.compile(r"(?<!\d)(?:0?\.731\d*|73\.1(?!\d*\s?[kMGT]?B))")
"""A planted score as a fraction or in percent, but not in a timestamp or a disk size."""
SPLITS = ("validation", "test")
MISSING_IDS = ["0" * 32]
KINDS = ("json", "csv", "html")


def address(experiment_id):
    return f"/api/experiments/{experiment_id}/opening"


def open_by(client, experiment_id, choose, **details):
    return client.post(address(experiment_id), json={"choose": choose, **details})


def test_scores_and_predictions_stay_sealed_until_choice(client, context):
    experiment_id = add_sealed(context)
    sealed = client.get(address(experiment_id)).json()
    assert (sealed["state"], sealed["n"], sealed["scored_runs"], sealed["opened_on_rows"]) == ("sealed", 500, 6, 0)
    assert (sealed["chosen"], sealed["scores"], sealed["openings"]) == (None, None, [])
    assert [prediction["label"] for prediction in sealed["settings"]] == ["λ = 0", "λ = 1"]
    answer = open_by(client, experiment_id, "lambda = 1", note="best on validation", by="Ada")
    assert answer.status_code == 201, answer.text
    opened = answer.json()
    assert (opened, opened["state"]) == (client.get(address(experiment_id)).json(), "opened")
    (opening,) = opened["openings"]
    assert (opening["number"], opening["kind"], opening["label"]) == (1, "setting", "λ = 1")
    assert (opening["note"], opening["by"], opening["opened_before"]) == ("best on validation", "Ada", 0)
    assert [prediction["chosen"] for prediction in opened["scores"]] == [None, 1]
    experiment_id = add_sealed(context)
    add_predictions(context, experiment_id)
    path = f"/api/runs/{run_ids(context, experiment_id)[0]}/predictions"
    for query in ({"split": "test"}, {"split": "test", "format": "csv"}):
        refused = client.get(path, params=query)
        assert (refused.status_code, refused.json()["field"]) == (409, "split")
        assert "sealed" in refused.json()["detail"]
    assert client.get(path).status_code == 404, "no validation predictions are stored"
    open_by(client, experiment_id, "lambda = 1")
    rows = client.get(path, params={"split": "test"}).json()
    expected = [(0, True), (1, True), (2, True), (3, False)]
    assert [(prediction["row"], prediction["reference"] == prediction["predicted"]) for prediction in rows] == expected
    assert client.get(path, params={"split": "test", "format": "csv"}).text.startswith("row,reference,predicted")


def test_chosen_setting_has_interval_difference_or_reason(client, context):
    scores = [0.80, 0.82, 0.81, 0.85, 0.86, 0.87]
    experiment_id = add_sealed(context, scores=scores)
    chosen = open_by(client, experiment_id, "λ = 1").json()["chosen"]
    assert chosen["test"]["mean"] == pytest.approx(0.86)
    assert chosen["test"]["ci95_half_width"] == pytest.approx(4.3027 * 0.01 / 3**0.5, rel=1e-3)
    assert chosen["difference"]["mean"] == pytest.approx(0.05)
    assert (chosen["difference"]["n"], chosen["baseline"]) == (3, "λ = 0")
    assert chosen["validation"]["mean"] == pytest.approx(0.61)
    page = client.get(f"/experiments/{experiment_id}?tab=result").text
    assert "λ = 1: Accuracy 0.860 ± 0.025 on 500 test rows over 3 seeds." in page
    assert "Difference from λ = 0: +0.050 ± 0.025 over 3 seeds." in page
    assert page.index("<strong>chosen</strong>") > page.index("not chosen")
    assert "Chosen by local user" in page
    assert "a record, not a lock" in client.get(f"/experiments/{add_sealed(context)}?tab=result").text
    experiment_id = add_sealed(context, scores=[0.8, 0.81, 0.82, 0.665, 0.665, 0.665])
    open_by(client, experiment_id, "lambda = 1")
    page = client.get(f"/experiments/{experiment_id}?tab=result").text
    table = page[page.index('aria-label="Test scores"') :].partition("</table>")[0]
    assert "95% intervals are for new seeds on these test rows" in table
    assert "0.665" in table
    assert "± 0<" not in table
    experiment_id = add_sealed(context, config={"metric": "f1"})
    chosen = open_by(client, experiment_id, "lambda = 1").json()["chosen"]
    assert chosen["test"] is None
    assert chosen["reason"].startswith("No test row has the label")
    assert "No test row has the label" in client.get(f"/experiments/{experiment_id}?tab=result").text


def test_choice_can_be_run_or_setting_and_changes_are_marked(client, context):
    experiment_id = add_sealed(context)
    first = open_by(client, experiment_id, "lambda = 0").json()["chosen"]
    again = open_by(client, experiment_id, "lambda = 0")
    assert (again.status_code, again.json()["field"]) == (409, "choose")
    changed = open_by(client, experiment_id, "lambda = 1", note="looked better", by="Ada").json()
    assert changed["chosen"] == first
    assert [(score["number"], score["opened_before"]) for score in changed["openings"]] == [(1, 0), (2, 1)]
    assert [score["chosen"] for score in changed["scores"]] == [1, 2]
    back = open_by(client, experiment_id, "lambda = 0").json()
    assert [score["label"] for score in back["openings"]] == ["λ = 0", "λ = 1", "λ = 0"]
    assert [score["chosen"] for score in back["scores"]] == [1, 2]
    page = client.get(f"/experiments/{experiment_id}?tab=result").text
    assert "changed after the scores were shown" in page
    assert "looked better" in page
    experiment_id = add_sealed(context)
    chosen = open_by(client, experiment_id, run_ids(context, experiment_id)[4]).json()
    assert (chosen["openings"][0]["kind"], chosen["openings"][0]["label"]) == ("run", "λ = 1, seed 1")
    assert (chosen["chosen"]["test"]["n"], chosen["chosen"]["test"]["ci95_half_width"]) == (1, None)
    assert chosen["chosen"]["test"]["mean"] == pytest.approx(PLANTED + 4 * STEP)
    assert [score["chosen"] for score in chosen["scores"]] == [None, None]
    assert open_by(client, experiment_id, "λ = 1, seed 2").json()["openings"][1]["kind"] == "run"
    for typed in ["λ=1", "lambda=1", "lam=1", "Lambda = 1.0", "  λ = 1 "]:
        assert open_by(client, add_sealed(context), typed).json()["openings"][0]["label"] == "λ = 1"


@pytest.mark.both_databases
def test_openings_on_same_rows_are_counted_across_experiments(client, context):
    first, second, third = add_sealed(context), add_sealed(context), add_sealed(context, rows="b" * 64)
    open_by(client, first, "lambda = 1")
    open_by(client, first, "lambda = 0")
    client.delete(f"/api/experiments/{first}")
    assert client.get(address(second)).json()["opened_on_rows"] == 2
    assert "2 choices were opened on these test rows before" in client.get(f"/experiments/{second}?tab=result").text
    assert open_by(client, second, "lambda = 1").json()["openings"][0]["opened_before"] == 2
    assert "2 choices had been opened on these test rows before" in client.get(f"/experiments/{second}?tab=result").text
    assert open_by(client, third, "lambda = 1").json()["openings"][0]["opened_before"] == 0


def test_refused_opening_says_why(client, context):
    plain = add_experiment(context, run_row(0.0), run_row(1.0))
    assert client.get(address(plain)).json()["state"] == "none"
    assert "no test split" in open_by(client, plain, "lambda = 1").json()["detail"]
    assert 'id="test"' not in client.get(f"/experiments/{plain}?tab=result").text
    running = add_sealed(context, run_row(0.0), run_row(1.0, status=RunStatus.RUNNING))
    refused = open_by(client, running, "lambda = 0")
    assert (refused.status_code, "1 run have not ended" in refused.json()["detail"]) == (409, False)
    assert "has not ended" in refused.json()["detail"]
    page = client.get(f"/experiments/{running}?tab=result").text
    assert "1 run has not ended. You can freeze and open when all runs have ended." in page
    assert f'href="/experiments/{running}/opening"' not in page
    refused = open_by(client, add_sealed(context), "lambda = 3")
    assert (refused.status_code, refused.json()["field"]) == (422, "choose")
    assert refused.json()["detail"].startswith("No setting or run 'lambda = 3'. Settings are: λ = 0; λ = 1.")
    assert open_by(client, "0" * 32, "lambda = 1").status_code == 404
    assert open_by(client, add_sealed(context), "").json()["field"] == "choose"


def test_page_confirms_opening_and_works_as_plain_form(client, context):
    experiment_id = add_sealed(context)
    page = client.get(f"/experiments/{experiment_id}?tab=result").text
    assert "6 runs are scored on 500 test rows" in page
    opening_url = f"/experiments/{experiment_id}/opening"
    assert f'href="{opening_url}"' in page
    form = client.get(opening_url).text
    assert "This cannot be undone" in form
    assert DIGITS not in page + form
    refused = client.post(opening_url, data={"choose": "", "run": "", "note": "kept"})
    assert (refused.status_code, "Choose a setting or a run." in refused.text) == (422, True)
    assert "kept</textarea>" in refused.text
    assert client.post(opening_url, data={"choose": "λ = 1", "note": "x" * 3000}).status_code == 422
    opened = client.post(opening_url, data={"choose": "λ = 1", "run": "", "note": "because", "by": "Ada"})
    expected = (303, f"/experiments/{experiment_id}?tab=result#test")
    assert (opened.status_code, opened.headers["location"]) == expected
    assert "“because”" in client.get(f"/experiments/{experiment_id}?tab=result").text
    assert "Change the choice" in client.get(opening_url).text


def test_upload_takes_test_split_from_file_column_or_fraction(run_cli, tmp_path, isoscope):
    table = "sentence\tlabel\tpart\n" + "".join(
        f"a film number {i}\t{i % 2}\t{'held out' if i > 35 else 'dev' if i > 29 else 'train'}\n" for i in range(40)
    )
    rows = tmp_path / "rows.tsv"
    rows.write_text(table)
    code, out, err = run_cli("upload-dataset", rows, rows, "--test", rows, "--name", "Three files")
    assert (code, out.splitlines()[1]) == (0, "rows: 40 train, 40 validation, 40 test"), err
    values = ("--validation-values", "dev", "--test-values", "held out")
    out = run_cli("upload-dataset", rows, "--split-column", "part", *values)[1]
    assert out.splitlines()[1] == "rows: 30 train, 6 validation, 4 test"
    other_file = tmp_path / "other.tsv"
    other_file.write_text(table.replace("film", "plot"))
    out = run_cli("upload-dataset", rows, other_file, "--test-fraction", "0.1", "--seed", "2", "--json")[1]
    assert json.loads(out)["division"] == {"kind": "fraction", "fraction": 0.1, "validation_fraction": None, "seed": 2}
    out = run_cli("upload-dataset", rows, "--validation-fraction", "0.2", "--test-fraction", "0.1")[1]
    assert out.splitlines()[1] == "rows: 28 train, 8 validation, 4 test"
    dataset = isoscope.upload_dataset(rows, split_column="part", split_values={"validation": ["dev", "held out"]})
    assert (dataset["n_validation"], dataset["n_test"]) == (10, None)
    code, _, err = run_cli("upload-dataset", rows)
    assert (code, "No validation file" in err) == (1, True)


def test_choice_is_frozen_by_command(run_cli, context, isoscope):
    experiment_id = add_sealed(context, name="Sealed", scores=[0.80, 0.82, 0.81, 0.85, 0.86, 0.87])
    # Not after a digit: timestamps may end like this.
    assert re.search(r"(?<!\d)0\.8[257]", run_cli("runs", "--json")[1]) is None
    add_predictions(context, experiment_id)
    run = run_ids(context, experiment_id)[0]
    code, out, err = run_cli("open-test", "Sealed")
    assert (code, out) == (0, "λ = 0\nλ = 1\n")
    assert "sealed" in err
    assert isoscope.test_scores(experiment_id)["state"] == "sealed", "listing opens nothing"
    with pytest.raises(RefusedError, match="sealed"):
        list(isoscope.predictions(run, split="test"))
    assert run_cli("predictions", run, "--split", "test", "-o", "none.csv")[0] == 1

    code, out, _ = run_cli("open-test", "Sealed", "--choose", "lambda = 1", "--by", "Ada", "--note", "best")
    first, heads, *lines = out.splitlines()
    assert code == 0
    assert first.startswith("λ = 1: accuracy 0.86 ± 0.02484 on 500 test rows, chosen by Ada at ")
    assert first.endswith("(none opened before)")
    assert heads.split()[:3] == ["Setting", "Choice", "Seeds"]
    assert [("not chosen" in line, "0.81" in line) for line in lines] == [(True, True), (False, False)]
    assert len(list(isoscope.predictions(run, split="test"))) == 4
    changed = isoscope.open_test(experiment_id, "lambda = 0", note="second thoughts")
    assert [opening["number"] for opening in changed["openings"]] == [1, 2]
    assert "changed afterward: λ = 0, by local user" in run_cli("open-test", "Sealed")[1]


@pytest.fixture
def experiment_id(context):
    return add_sealed(context)


@pytest.fixture
def get_all(client, context, experiment_id):
    """Iterate over (path, answer) of every GET route, with each id that fits its path."""
    run = run_ids(context, experiment_id)[0]
    listed = client.get(f"/api/experiments/{experiment_id}/figures").json()
    slugs = {*listed} | {"isotropy", "lambda", "loss", "activation", "layers", "parallel"}
    path_values = {
        "experiment_id": [experiment_id],
        "run_id": [run],
        "slug": sorted(slugs),
        "kind": KINDS,
        "format": KINDS,
    }

    dataset = client.get(f"/api/experiments/{experiment_id}").json()["dataset_id"]

    def iterate_answers():
        for path in (f"/datasets/{dataset}", f"/api/datasets/{dataset}"):
            yield path, client.get(path)
        for template in paths():
            if "/playground" in template:  # clouds, not experiments
                continue
            is_ours = "{experiment_id}" in template or "{run_id}" in template
            names = re.findall(r"{(\w+)(?::\w+)?}", template)
            for values in itertools.product(
                *(path_values.get(name, MISSING_IDS) if is_ours else MISSING_IDS for name in names)
            ):
                path = template
                for name, value in zip(names, values, strict=True):
                    path = re.sub(rf"{{{name}(:\w+)?}}", value, path)
                for query in ("", *queries(path, experiment_id)):
                    yield path + query, client.get(path + query)

    return iterate_answers


def paths():
    for prefix, router in (("", routes.pages_router), ("/api", routes.api_router)):
        yield from (prefix + path.removeprefix(prefix) for method, path in list_routes(router) if method == "GET")


def queries(path, experiment_id):
    if path.endswith("/runs") or path.startswith("/compare/runs") or path.startswith("/api/compare/runs"):
        yield f"?q=experiment%3D{experiment_id}"
        yield "?q=accuracy%3E0.7"
        yield "?sort=-performance"
    if path in {"/experiments", "/api/experiments"}:
        yield "?q=accuracy%3E0.7"
    if path == f"/experiments/{experiment_id}":
        yield from (f"?tab={tab.slug}" for tab in TABS)
    if path.startswith("/api/runs/"):
        yield from (f"?split={split}" for split in SPLITS)
        yield "?split=test&format=csv"


def texts_of(answer):
    """Yield the text of an answer, or of each member of an archive that is not marked as sealed."""
    if answer.headers.get("content-type") != "application/octet-stream" and not answer.content.startswith(b"PK"):
        yield answer.text
        return
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        for name in archive.namelist():
            if not name.startswith("sealed/"):
                yield archive.read(name).decode()


def test_no_route_reveals_a_sealed_score(get_all, caplog):
    caplog.set_level("DEBUG")
    answers = [(path, answer) for path, answer in get_all()]
    assert sum(answer.status_code == 200 for _, answer in answers) > 60
    for path, answer in answers:
        assert answer.status_code < 500, path
        for text in texts_of(answer):
            assert SEALED.search(text) is None, path
    assert SEALED.search(caplog.text) is None


@pytest.mark.long
def test_opened_scores_appear_only_in_opening_and_its_page(client, get_all, experiment_id):
    client.post(f"/api/experiments/{experiment_id}/opening", json={"choose": "lambda = 0"})
    leaks = {path for path, answer in get_all() if any(map(SEALED.search, texts_of(answer)))}
    page = f"/experiments/{experiment_id}"
    assert leaks == {page, f"{page}?tab=result", f"/api{page}/opening"}


def test_actions_and_searches_reveal_no_test_score(client, experiment_id, context):
    assert client.get("/api/runs", params={"q": "accuracy>0.7"}).json() == []
    assert len(client.get("/api/runs", params={"q": "accuracy>0.4"}).json()) == 6
    assert json.dumps(PLANTED) not in client.get("/api/runs").text
    run = run_ids(context, experiment_id)[0]
    for path in ("cancel", "pause", "resume"):
        assert SEALED.search(client.post(f"/api/experiments/{experiment_id}/{path}").text) is None
    for path in ("cancel", "pause", "resume", "retry"):
        assert SEALED.search(client.post(f"/api/runs/{run}/{path}").text) is None
    refused = client.post(f"/api/experiments/{experiment_id}/opening", json={"choose": "nothing"})
    assert SEALED.search(refused.text) is None


def opening(client, experiment_id):
    return client.get(f"/api/experiments/{experiment_id}/opening").json()


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
