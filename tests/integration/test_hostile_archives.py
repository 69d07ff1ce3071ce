import json
import struct
import tracemalloc
import zipfile
import zlib

import pytest
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import func, select

from app.db.models import Dataset, Experiment, Run, RunFigure, Step
from app.db.session import INCLUDE_HIDDEN
from app.main import create_app
from app.results.archive import container as limits
from app.results.archive import reading
from app.results.archive.reading import check_archive, open_archive
from app.results.sweep_figures import list_available_slugs
from isoscope.core.errors import InvalidError, IsoscopeError, TooLargeError, UnsupportedFormatError
from tests.archives import add_experiment, export, pack, send, unpack
from workers.imports import job, tables

SWEEP_FIGURES = list_available_slugs({"search": False})
ADVICE = "Export the experiment again where it was made."
CHOOSE = "Choose a file made by Export on the page of an experiment."


@pytest.fixture
def files(client, context):
    return unpack(export(client, add_experiment(context)))


@pytest.fixture
def refusal(tmp_path):
    def read(content, kind=InvalidError):
        path = tmp_path / "refused.zip"
        path.write_bytes(content)
        with pytest.raises(IsoscopeError) as refused:
            check_archive(path)
        assert type(refused.value) is kind, refused.value
        return refused.value.message

    return read


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_reader_rejects_incomplete_or_altered_export(refusal, files, tmp_path):
    assert refusal(b"not a zip").startswith("The file cannot be read as a zip archive (File is not a zip ")
    assert refusal(pack(files)[:-30]).startswith("The file cannot be read as a zip archive (")
    no_export = f"The archive contains 'weights.bin', which exports never contain. {CHOOSE}"
    assert refusal(pack({"weights.bin": b"x"}, manifest=False)) == no_export
    without = f"Expected an exported experiment, got a zip archive without manifest.json. {CHOOSE}"
    assert refusal(pack({"README.txt": b"x"}, manifest=False)) == without
    for name in ("../../etc/passwd", "/etc/passwd", "figures/../runs.jsonl", "figures/a.html", "C:\\x"):
        assert "which exports never contain" in refusal(pack(files | {name: b"x"}))
    for written_as, advice in ((2, "update Isoscope"), (0, "export the experiment with a newer Isoscope")):
        listing = json.loads(files["manifest.json"]) | {"format": written_as}
        altered = pack(files | {"manifest.json": json.dumps(listing).encode()}, manifest=False)
        sentence = f"The file has format {written_as}, and this Isoscope 0.2.0 reads format 1: {advice}."
        assert refusal(altered, UnsupportedFormatError) == sentence
    for name in ("runs.jsonl", "steps.jsonl", "experiment.json", "README.txt", "figures/isotropy.csv"):
        altered = files | {name: files[name].replace(b"0", b"1", 1)}
        sentence = f"{name} is not what the manifest says, by its hash: the file was altered. {ADVICE}"
        assert refusal(pack(altered, manifest=False)) == sentence
    for missing, manifest in (("steps.jsonl", True), ("figures/isotropy.csv", False)):
        without = {name: data for name, data in files.items() if name != missing}
        sentence = f"The file lacks '{missing}': it is incomplete. {ADVICE}"
        assert refusal(pack(without, manifest=manifest)) == sentence
    extended = pack(files | {"figures/new.csv": b"x"}, manifest=False)
    assert refusal(extended) == f"'figures/new.csv' is not in the manifest: the file was altered. {ADVICE}"
    doubled = tmp_path / "doubled.zip"
    doubled.write_bytes(pack(files))
    with zipfile.ZipFile(doubled, "a") as archive:
        archive.writestr("README.txt", b"again")
    assert refusal(doubled.read_bytes()) == f"Two files in the archive have the same name. {ADVICE}"
    squeezed = pack(files, compression=zipfile.ZIP_LZMA)
    assert "is encrypted, or compressed in another way than exports are" in refusal(squeezed)


def test_reader_rejects_too_many_or_too_large_files(refusal, files):
    extra_files = {f"figures/{number}.csv": b"" for number in range(301)}
    assert refusal(pack(files | extra_files), TooLargeError).startswith("The archive has 3")
    bomb = pack(files | {"figures/bomb.csv": bytes(100 * 2**20)})
    assert refusal(bomb, TooLargeError).startswith("'figures/bomb.csv' declares 104,857,600 bytes in ")
    large = pack(files | {"README.txt": b"0123456789abcdef" * 2**17})
    sentence = "'README.txt' unpacks to 2,097,152 bytes, more than the 1,048,576 allowed here."
    assert refusal(large, TooLargeError) == sentence
    content = bytearray(pack(files | {"README.txt": b"a" * 900_000}))
    real, lie = (900_000).to_bytes(4, "little"), (1000).to_bytes(4, "little")
    lying = bytes(content).replace(real, lie)
    assert lying != bytes(content)
    assert "cannot be read as a zip archive" in refusal(lying)


def test_manifest_with_false_size_is_not_read_into_memory(refusal, files):
    blanks = 64 * 2**20
    long = pack(files | {"manifest.json": files["manifest.json"] + b" " * blanks}, manifest=False)
    size, honest = len(files["manifest.json"]), zlib.crc32(files["manifest.json"])
    declared = struct.pack("<I", size + blanks)
    start = long.rindex(b"PK\x01\x02")  # of the manifest, which is the last in the directory
    assert long[start + 24 : start + 28] == declared
    lying = bytearray(long)
    lying[start + 16 : start + 20], lying[start + 24 : start + 28] = struct.pack("<I", honest), struct.pack("<I", size)
    tracemalloc.start()
    try:
        assert "(Bad CRC-32 for file 'manifest.json')" in refusal(bytes(lying))
        assert tracemalloc.get_traced_memory()[1] < 8 * 2**20
    finally:
        tracemalloc.stop()


def test_reader_rejects_unstorable_values(refusal, files):
    def lines(name, old, new):
        assert old in files[name]
        return pack(files | {name: files[name].replace(old, new, 1)})

    sentence = "it contains NaN, which is not a number in JSON; a value that is undefined is null."
    nan = lines("runs.jsonl", b'"loss":0.5', b'"loss":NaN')
    assert refusal(nan) == f"runs.jsonl, line 1 cannot be read: {sentence} {ADVICE}"
    assert "beyond 1e-100 to 1e+100" in refusal(lines("runs.jsonl", b'"loss":0.5', b'"loss":1e999'))
    assert "beyond 2 to the power of 53" in refusal(lines("runs.jsonl", b'"tokens":400', b'"tokens":' + b"9" * 99))
    for depth in (100, 400, 100_000):
        deep = lines("runs.jsonl", b'["it","is",1,true]', b"[" * depth + b"]" * depth)
        assert refusal(deep) == f"runs.jsonl, line 1 cannot be read: it is nested too deeply. {ADVICE}"
    assert "steps.jsonl, line 1: " in refusal(lines("steps.jsonl", b'"task_loss":0.1', b'"task_loss":NaN'))
    assert "steps.jsonl, line 1: " in refusal(lines("steps.jsonl", b'{"run"', b'{"runs"'))
    cut = pack(files | {"steps.jsonl": files["steps.jsonl"][:-1]})
    assert refusal(cut) == f"The last line of steps.jsonl is cut off. {ADVICE}"
    broken = pack(files | {"runs.jsonl": b"{\n"})
    assert refusal(broken).startswith("runs.jsonl, line 1 cannot be read: it is not JSON (")
    assert refusal(pack(files | {"runs.jsonl": b""})) == (f"runs.jsonl is empty: there is no run to show. {ADVICE}")


def test_reader_rejects_inconsistent_rows(refusal, files):
    def refusal_on(name, change, line=0):
        lines = files[name].splitlines()
        document = json.loads(lines[line])
        change(document)
        lines[line] = json.dumps(document).encode()
        return refusal(pack(files | {name: b"\n".join(lines) + b"\n"})).removesuffix(f" {ADVICE}")

    first, figure = (json.loads(files[name].splitlines()[0]) for name in ("runs.jsonl", "run_figures.jsonl"))
    for line, change, sentence in (
        (1, lambda run: run.update(id=first["id"]), "runs.jsonl has two runs of the same id or position."),
        (0, lambda run: run["config"].update(batch_size=64),
         "A run in runs.jsonl has a batch_size that is not among those of the grid."),
        (0, lambda run: run.update(lam=5.0), "Expected lam = 0.0, as in the config of the run, got 5.0."),
        (0, lambda run: run["config"].update(model="m" * 201),
         "Expected a model's name of at most 200 characters, got 201."),
        (0, lambda run: run.update(queued_at="9999-12-31T23:59:59Z"),
         "Expected a time from 2000 to 2200, got one of the year 9999."),
        (0, lambda run: run["results"]["by_layer"]["twonn"].update(reasons=[]),
         "Expected a reason or null for each of 2 layers, got 0."),
        (0, lambda run: run.update(tags=["keep", "Keep"]), "Expected each tag of a run once, whatever its case."),
        (0, lambda run: run.update(tags=[" keep"]), "Expected a tag in one line, without blanks around it."),
    ):  # fmt: skip
        prefix = "runs.jsonl, line 1: " if sentence.startswith("Expected") else ""
        assert refusal_on("runs.jsonl", change, line) == f"{prefix}{sentence}"
    empty = {"values": [], "reasons": []}
    assert "with 1 or more values" in refusal_on(
        "runs.jsonl", lambda run: run["results"]["by_layer"].update(silhouette=empty)
    )
    for tags in (["a,b"], ["long " * 10], [""], [f"tag {n}" for n in range(21)]):
        assert refusal_on("runs.jsonl", lambda run, tags=tags: run.update(tags=tags)).startswith("runs.jsonl, line 1: ")
    unknown = refusal_on("runs.jsonl", lambda run: run.update(more=1))
    assert unknown.startswith("runs.jsonl, line 1: There is no field more; leave it out.")
    for name, line, change, sentence in (
        ("steps.jsonl", 0, lambda step: step.update(run="0" * 32), " has a run that is not in runs.jsonl."),
        ("steps.jsonl", 1, lambda step: step.update(step=10), " repeats a step of a run, or steps are out of order."),
        ("steps.jsonl", 1, lambda step: step["layers"].update(isoscore_star=[0.5]),
         " has steps of a run with unequal layer counts."),
        ("run_figures.jsonl", 1, lambda row: row.update(figure), " has a figure of a run twice."),
        ("run_figures.jsonl", 0, lambda row: row["data"].update(std=[0.5]),
         ", line 1: Expected as many deviations as the 2 means, got 1."),
    ):  # fmt: skip
        assert refusal_on(name, change, line) == f"{name}{sentence}"
    assert refusal_on("experiment.json", lambda row: row["grid"].update(seed=[1])).startswith("experiment.json: ")


def test_reader_rejects_too_many_rows_or_too_long_lines(refusal, files, tmp_path, monkeypatch):
    for name, value, sentence in (
        ("MAX_RUNS", 3, "runs.jsonl has more than 3 runs, the limit here."),
        ("MAX_STEPS", 5, "steps.jsonl has more than 5 steps, the limit here."),
        ("MAX_LINE_BYTES", 10, "runs.jsonl has a line of more than 10 bytes, the limit here."),
    ):
        assert getattr(limits, name) > value
        with monkeypatch.context() as patched:
            patched.setattr(reading, name, value)
            assert refusal(pack(files), TooLargeError) == sentence
    path = tmp_path / "sweep.zip"
    path.write_bytes(pack(files))
    for error in (RuntimeError, OSError, ValueError):  # not reported as the file's fault
        with pytest.raises(error, match="No space left"), open_archive(path):
            raise error("No space left on device")


def test_failed_import_leaves_no_rows_or_files(other_client, files, monkeypatch):
    missing = {name: data for name, data in files.items() if name != "steps.jsonl"}
    newer = json.loads(files["manifest.json"]) | {"format": 2}
    for content in (
        pack(missing),
        pack(files | {"README.txt": bytes(2**21)}),
        pack(files | {"manifest.json": json.dumps(newer).encode()}, manifest=False),
    ):
        answer = send(other_client, content)
        assert (answer.status, answer.detail.startswith("sweep.zip: ")) == ("failed", True)
    broken = {"make_columns": lambda figure, target: {"run_id": "no such run", "slug": "x", "data": {}}}
    altered = [table._replace(**broken) if table.member == "run_figures.jsonl" else table for table in tables.TABLES]
    monkeypatch.setattr(job, "TABLES", altered)
    assert send(other_client, pack(files)).status == "failed"
    with other_client.rows() as session:
        for table in (Experiment, Dataset, Run, Step, RunFigure):
            counted = select(func.count()).select_from(table)
            assert session.scalar(counted, execution_options={INCLUDE_HIDDEN: True}) == 0, table
    assert list(other_client.app.state.context.storage.list_files()) == []


@pytest.fixture
def few_runs(files):
    lines = files["runs.jsonl"].splitlines(keepends=True)
    excerpt = [*lines[:3], *lines[-3:]]
    ids = {json.loads(line)["id"] for line in excerpt}
    shortened = {
        name: b"".join(line for line in files[name].splitlines(keepends=True) if json.loads(line)["run"] in ids)
        for name in ("steps.jsonl", "run_figures.jsonl")
    }
    return files | shortened | {"runs.jsonl": b"".join(excerpt)}


@pytest.mark.sandbox
def test_page_shows_error_at_file_field(other_client, few_runs):
    response = other_client.post("/experiments/import", data={})
    assert response.status_code == 422
    assert "Expected the zip file of an exported experiment: choose one." in response.text
    wrong = send(other_client, b"not a zip", "/experiments/import")
    assert "sweep.zip: The file cannot be read as a zip archive" in wrong.text
    right = send(other_client, pack(few_runs), "/experiments/import")
    assert (right.status_code, other_client.get(right.headers["location"]).status_code) == (303, 200)
    assert 'href="/experiments/import"' in other_client.get("/experiments").text
    limited = other_client.app.state.context.settings.model_copy(update={"max_upload_bytes": 1000})
    with TestClient(create_app(limited), base_url="http://localhost") as small:
        answer = small.post("/api/experiments/import", files={"file": ("sweep.zip", pack(few_runs))})
    assert (answer.status_code, answer.json()["detail"].startswith("The file has more than 1,000 bytes")) == (413, True)


def list_paths(value, path=()):
    yield path
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inside:
        yield from list_paths(item, (*path, key))


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_fuzzed_archive_is_rejected_or_renders(other_client, few_runs, data):
    texts = st.text(max_size=5)
    json_values = st.recursive(
        st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.floats() | texts | st.just("\0\ud800"),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
        max_leaves=5,
    )
    name = data.draw(st.sampled_from(["experiment.json", "runs.jsonl", "steps.jsonl", "run_figures.jsonl"]))
    lines = few_runs[name].splitlines()
    line = data.draw(st.integers(0, len(lines) - 1))
    document = json.loads(lines[line])
    *path, last = data.draw(st.sampled_from(list(list_paths(document))[1:]))
    holder = document
    for key in path:
        holder = holder[key]
    if isinstance(holder, dict) and data.draw(st.booleans()):
        del holder[last]
    else:
        holder[last] = data.draw(json_values)
    lines[line] = json.dumps(document).encode()
    answer = send(other_client, pack(few_runs | {name: b"\n".join(lines) + b"\n"}))
    if not answer.is_success:
        assert answer.detail.startswith("sweep.zip: "), answer.detail
        return
    experiment = answer.json()
    try:
        page = f"/experiments/{experiment['id']}"
        pages = [page, "/experiments", "/"]
        pages += [f"{page}/figures/{slug}.{kind}" for slug in SWEEP_FIGURES for kind in ("json", "csv")]
        pages += [f"/runs/{run['id']}" for run in experiment["runs"]]
        for page in pages:
            assert other_client.get(page).status_code == 200, page
    finally:
        other_client.delete(f"/api/experiments/{experiment['id']}")
