import json
from contextlib import contextmanager
from threading import Event, Thread

import numpy as np
import pytest

from isoscope.client import Isoscope
from tests.archives import finish_imports
from tests.ports import free_port

ROWS = "sentence\tlabel\n" + "".join(f"text {i}\t{i % 2}\n" for i in range(20))
YAML = "model: all-MiniLM-L6-v2\ntext_columns: [sentence]\nlabel_column: label\nseeds: [0, 1]\nlambdas: [1]\n"


@pytest.fixture
def files(tmp_path, cloud):
    np.save(tmp_path / "x.npy", cloud)
    (tmp_path / "rows.tsv").write_text(ROWS)
    (tmp_path / "sweep.yaml").write_text(YAML)
    return tmp_path


@contextmanager
def processing_imports(context):
    """Process import jobs in a thread, as a worker would."""
    stop = Event()

    def work():
        while not stop.wait(0.2):
            finish_imports(context)

    thread = Thread(target=work)
    thread.start()
    yield
    stop.set()
    thread.join()


def test_sweep_runs_export_and_import_commands(run_cli, files, isoscope, context, monkeypatch):
    isoscope.upload_dataset(files / "rows.tsv", files / "rows.tsv", name="Rows")
    code, out, _ = run_cli("sweep", files / "sweep.yaml", "--dataset", "Rows", "--name", "First")
    launched = isoscope.experiments()[0]
    assert (code, out) == (0, f"First: {isoscope.url}/experiments/{launched['id']}\n")
    code, out, _ = run_cli("runs", "lam>0", "--sort", "seed", "--descending")
    heads, *lines = out.splitlines()
    assert heads.split()[:4] == ["Run", "Experiment", "Status", "Regularizer"]
    assert [line.split()[1:7] for line in lines] == [["First", "queued", "istar", "1", "0.2", s] for s in ("1", "0")]
    plain = [line.split()[3:6] for line in run_cli("runs", "lam:0")[1].splitlines()[1:]]
    assert plain == [["none", "0", "-"]] * 2, "ζ means nothing to plain training"
    assert run_cli("runs", "lam>0", "--limit", "1")[2] == "1 of 2 runs; --all lists them all\n"
    assert len(json.loads(run_cli("runs", "--all", "--json")[1])) == 4
    assert run_cli("runs", "lam>7")[1] == "There are no such runs.\n"
    isoscope.cancel_experiment(launched)
    assert run_cli("export", launched["id"], "-o", files / "first.zip")[:2] == (0, f"{files / 'first.zip'}\n")
    isoscope.delete_experiment(launched)
    code, out, _ = run_cli("import", files / "first.zip", "--no-wait")
    assert (code, out) == (0, f"first.zip: {isoscope.url}/imports/{isoscope.imports()[0]['id']}\n")
    isoscope.cancel_import(isoscope.imports()[0])
    finish_imports(context)  # or the file might be released while it is sent again
    with processing_imports(context):
        code, out, err = run_cli("import", files / "first.zip")
    assert err == "No worker is running. The import waits until one starts.\n"
    back = isoscope.experiments()[0]
    assert (code, out) == (0, f"First: {isoscope.url}/experiments/{back['id']}\n")
    assert (back["origin"], back["counts"]) == ("imported", {"cancelled": 4})
    monkeypatch.setattr(Isoscope, "sweep", lambda self, _: self.experiment(back))
    code, out, err = run_cli("sweep", files / "sweep.yaml", "--dataset", "Rows", "--wait")
    assert (code, out) == (1, "4 cancelled\n")
    assert err.endswith("4 of 4 runs have ended\n")
    searched = {"runs": [{"status": "finished"}, {"status": "pruned"}], "held": None}
    monkeypatch.setattr(Isoscope, "wait", lambda *_: searched)
    code, out, _ = run_cli("sweep", files / "sweep.yaml", "--dataset", "Rows", "--wait")
    assert (code, out) == (0, "1 finished, 1 pruned\n")


def test_export_accepts_unique_name(run_cli, files, isoscope):
    isoscope.upload_dataset(files / "rows.tsv", files / "rows.tsv", name="Rows")
    first, second = (isoscope.sweep(files / "sweep.yaml", dataset="Rows")["id"] for _ in range(2))
    sweep = isoscope.sweep({**isoscope.request(first), "name": 'I-STAR "on" agreement'})
    target = files / "named.zip"
    assert run_cli("export", 'I-STAR "on" agreement', "-o", target)[:2] == (0, f"{target}\n")
    assert target.exists()
    assert isoscope.find_experiment(sweep["id"])["name"] == 'I-STAR "on" agreement'
    code, _, err = run_cli("export", isoscope.experiment(first)["name"], "-o", target)
    assert code == 1
    assert "name one by its id" in err
    assert first in err
    assert second in err
    assert "There is no experiment 'I-STAR' on http://" in run_cli("export", "I-STAR")[2]


def test_sweep_prints_plan_without_launching(run_cli, files, isoscope):
    isoscope.upload_dataset(files / "rows.tsv", files / "rows.tsv", name="Rows")
    code, out, _ = run_cli("sweep", "-", "--dataset", "Rows", "--plan", stdin=YAML)
    assert code == 0
    assert out.splitlines() == [
        "(1 baseline + I-STAR × 1 λ) × 2 seeds = 4 runs",
        "The λ = 0 baseline was added, one run for each seed and setting.",
        "2 values of λ cannot show whether performance goes with isotropy. Use 5 or more, λ = 0 included.",
        "2 seeds cannot give a verdict on any λ. Use 3 or more.",
        "24 steps. No worker is running, so the time is unknown.",
    ]
    assert isoscope.experiments() == []


def test_upload_waits_and_prints_table_of_score_command(run_cli, files, work, isoscope, monkeypatch):
    code, out, _ = run_cli("upload", files / "x.npy", "--name", "Cloud", "--draft", "--json")
    draft = json.loads(out)
    assert (code, draft["name"], draft["status"]) == (0, "Cloud", "inspecting")
    work()
    isoscope.commit(draft)
    work()
    scores = isoscope.score(draft)
    assert scores["isoscore"]["status"] == "ok"
    monkeypatch.setattr(Isoscope, "upload", lambda *_, **__: isoscope.embedding(draft))
    code, out, _ = run_cli("upload", files / "x.npy", "--wait")
    where, table = out.split("\n", 1)
    assert (code, where) == (0, f"Cloud: {isoscope.url}/embeddings/{draft['id']}")
    measured, cli = (
        text.partition("\nSpread")[2].splitlines() for text in (table, run_cli("score", files / "x.npy")[1])
    )
    assert [line for line in measured if " IsoScore " in line] == [line for line in cli if " IsoScore " in line] != []
    assert [line[:60] for line in measured] == [line[:60] for line in cli]
    assert sum(" (SE " in line for line in measured) > 5


def test_encode_uses_likeliest_text_column(run_cli, files, isoscope):
    model = ("--model", "all-MiniLM-L6-v2")
    code, out, _ = run_cli("encode", files / "rows.tsv", *model, "--pooling=first", "--layers=0,6", "--plan")
    assert (code, "layers: 2" in out.strip().split(", ")) == (0, True)
    draft = isoscope.encodings()[0]
    code, out, _ = run_cli("encode", "--encoding", draft["id"], *model, "--max-rows=all", "--labels=label")
    assert (code, out) == (0, f"rows: {isoscope.url}/encodings/{draft['id']}\n")
    config = isoscope.encoding(draft)["config"]
    assert (config["text_columns"], config["label_column"], config["max_rows"]) == (["sentence"], "label", None)


def test_misuse_prints_sentence_and_exit_code(run_cli):
    nobody = f"http://127.0.0.1:{free_port()}"
    for words, sentence in (
        (("sweep", "none.yaml"), "none.yaml cannot be read: No such file or directory.\n"),
        (("sweep", "-"), "Expected YAML with one setting per line, such as lambdas: [-1, 1].\n"),
        (("upload", "none.npy"), "none.npy cannot be read: No such file or directory.\n"),
        (("runs", "--sort", "weather"), "weather"),
        (("encode", "--dataset", "Rows", "--model", "m"), "There is no data set 'Rows' on http://127.0.0.1:"),
        (("runs", "--url", nobody), f"No Isoscope answers at {nobody} ("),
    ):
        code, out, err = run_cli(*words)
        assert (code, out) == (1, "")
        assert sentence in err
    for words in (("encode", "x", "--model=m", "--layers=a"), ("encode", "--model=m"), ("sweep",)):
        with pytest.raises(SystemExit) as ended:
            run_cli(*words)
        assert ended.value.code == 2
