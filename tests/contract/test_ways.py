"""A form launches the same work as each command that its page prints."""

import html
import os
import re
import subprocess
import sys
from pathlib import Path

import httpx2
import numpy as np
import pytest
from sqlalchemy import select

from app.core.settings import Settings
from app.db.models import Experiment
from app.main import create_app
from isoscope.client import Isoscope
from tests.serving import serve_in_thread

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
TOKEN = "a-secret-of-many-letters"
ROWS = 'sentence\tthe "label"\n' + "".join(f"text {i}\t{'yes' if i % 2 else 'no'}\n" for i in range(20))
NAME = 'Bob\'s "sweep" $HOME `date` \\ YAML: é #1'
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
WAY = re.compile(r'<h2 id="way-\d">(.*?)</h2>.*?<pre[^>]*><code>(.*?)</code></pre>', re.DOTALL)


@pytest.fixture
def settings(tmp_path):
    return Settings(data_dir=tmp_path / "data", sample=False, access_token=TOKEN)


@pytest.fixture
def address(context):
    with serve_in_thread(create_app(context.settings)) as address:
        yield address


@pytest.fixture
def isoscope(address):
    with Isoscope(address, TOKEN) as isoscope:
        yield isoscope


@pytest.fixture
def page(address):
    headers = {"Authorization": f"Bearer {TOKEN}", "Accept": "text/html"}
    with httpx2.Client(base_url=address, headers=headers, timeout=60) as page:
        yield page


@pytest.fixture
def dataset(isoscope, tmp_path):
    path = tmp_path / "rows.tsv"
    path.write_text(ROWS)
    return isoscope.upload_dataset(path, path, name="Rows 'of' $IFS\nYAML")


@pytest.fixture
def form(dataset):
    """A sweep with texts that a shell must quote and many options that are not the defaults."""
    return {
        "dataset_id": dataset["id"], "model": "all-MiniLM-L6-v2", "name": NAME, "task": "classification",
        "metric": "f1", "text_columns": ["sentence"], "label_column": 'the "label"',
        "regularizers": ["none", "istar", "cosreg"], "lambdas": "-1, 0.123456789", "zetas": "0.2, 0.4", "seeds": "0, 3",
        "fixed_spectrum": "0.5", "epochs": "", "max_steps": "7", "batch_size": "8", "export": "true",
        "grid_field": ["learning_rate", "layers"], "grid_values": ["1e-5, 3e-5", "1 2, last, default"],
    }  # fmt: skip


@pytest.fixture
def shell(tmp_path):
    """Run a shell command with this checkout's `isoscope` and the token in the environment."""
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin" / "isoscope"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m isoscope "$@"\n')
    command.chmod(0o755)
    path = f"{command.parent}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "PYTHONPATH": str(ROOT), "ISOSCOPE_ACCESS_TOKEN": TOKEN}

    def run(text):
        process = subprocess.run(
            ["bash", "-ec", text],
            check=False, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        assert process.returncode == 0, process.stderr
        return process.stdout

    return run


def read_ways(page, path, **query):
    answer = page.get(path, params=query or None)
    assert answer.status_code == 200
    assert TOKEN not in answer.text
    return {name: html.unescape(text) for name, text in WAY.findall(answer.text)}


def list_launched(context):
    """Return name, configuration, grid and run configurations of each experiment, oldest first."""
    with context.sessions() as session:
        experiments = session.scalars(select(Experiment).order_by(Experiment.created_at)).all()
        return [
            (experiment.name, experiment.config, experiment.grid, [run.config for run in experiment.runs])
            for experiment in experiments
        ]


def test_sweep_is_the_same_by_page_api_command_python_and_yaml(context, isoscope, page, form, shell, tmp_path):
    ways = read_ways(page, "/experiments/new", **form)
    assert list(ways) == ["curl", "Command line", "Python", "YAML"]
    launched = page.post("/experiments", data=form)
    assert launched.status_code == 303
    experiment = launched.headers["location"].rpartition("/")[2]
    shell(ways["curl"])
    shell(ways["Command line"])
    (tmp_path / "sweep.yaml").write_text(ways["YAML"])
    shell(f"isoscope sweep --url {isoscope.url} sweep.yaml")
    (tmp_path / "sweep.py").write_text(ways["Python"].replace("isoscope.wait(experiment)", ""))
    shell(f"'{sys.executable}' sweep.py")
    isoscope.sweep(isoscope.request(experiment))
    (tmp_path / "again.yaml").write_text(page.get(f"/experiments/{experiment}/request.yaml").text)
    isoscope.sweep(tmp_path / "again.yaml")
    filled = page.post("/experiments/new/yaml", data={"yaml": ways["YAML"]})
    link = filled.headers["location"]
    assert page.post("/experiments", content=link.partition("?")[2], headers=FORM).status_code == 303
    first, *later_launches = list_launched(context)
    name, config, grid, runs = first
    assert (name, grid) == (NAME, {"learning_rate": [1e-5, 3e-5], "layers": [[1, 2], "last", None]})
    assert (config.fixed_regularizers, config.max_steps, config.epochs) == ({"spectrum": 0.5}, 7, None)
    # For each of 2 rates and 2 seeds: the baseline; I-STAR at 2 λ × 2 ζ × 3 layers, CosReg at 2 λ × 3 layers.
    assert len(runs) == 2 * 2 * (1 + 12 + 6)
    assert later_launches == [first] * 7


def test_search_is_the_same_by_page_and_command(context, page, form, shell, tmp_path):
    form = {name: text for name, text in form.items() if not name.startswith("grid_")}
    form |= {"search_lam_low": "-2", "search_least_size": "0.1", "search_zeta_high": "0.4", "search_trials": "5"}
    form |= {"checkpoint": "best", "search_prune": "true"}
    ways = read_ways(page, "/experiments/search", **form)
    address = page.post("/experiments/new/yaml", data={"yaml": ways["YAML"]}).headers["location"]
    assert read_ways(page, address) == ways, "the YAML holds the full form"
    assert page.post("/experiments/search", content=address.partition("?")[2], headers=FORM).status_code == 303
    shell(ways["curl"])
    shell(ways["Command line"])
    (tmp_path / "search.py").write_text(ways["Python"].replace("isoscope.wait(experiment)", ""))
    shell(f"'{sys.executable}' search.py")
    with context.sessions() as session:
        studies = [experiment.study for experiment in session.scalars(select(Experiment))]
    assert [getattr(studies[0], name) for name in ("lam_low", "least_size", "zeta_high", "trials")] == [-2, 0.1, 0.4, 5]
    assert studies == [studies[0]] * 4
    assert [study.prune for study in studies] == [True] * 4
    del form["search_prune"]
    assert "prune" not in read_ways(page, "/experiments/search", **form)["YAML"], "an unticked box sends nothing"
    first, *later_launches = list_launched(context)
    assert later_launches == [first] * 3


def test_encoding_is_the_same_by_page_and_command(isoscope, page, shell, tmp_path):
    path = tmp_path / "texts.tsv"
    path.write_text(ROWS)
    form = {
        "model": "all-MiniLM-L6-v2", "text_columns": ["sentence"], "label_column": 'the "label"', "seed": "3",
        "poolings": ["first", "mean"], "max_rows": "", "layers": "0, 2", "max_length": "64", "batch_size": "32",
    }  # fmt: skip
    configs = []
    for way in ("page", "curl", "Command line", "Python"):
        draft = isoscope.upload_texts(path)
        ways = read_ways(page, f"/encodings/{draft['id']}", **form)
        if way == "page":
            assert page.post(f"/encodings/{draft['id']}/launch", data=form).status_code == 303
        elif way == "Python":
            (tmp_path / "encode.py").write_text(ways[way])
            shell(f"'{sys.executable}' encode.py")
        else:
            shell(ways[way])
        launched = isoscope.encoding(draft)
        assert launched["status"] == "queued"
        configs.append(launched["config"])
    assert configs[0]["max_rows"] is None
    assert (configs[0]["layers"], configs[0]["poolings"], configs[0]["seed"]) == ([0, 2], ["first", "mean"], 3)
    assert configs == [configs[0]] * 4


def test_upload_is_the_same_by_each_command(isoscope, page, shell, tmp_path, cloud, form):
    np.save(tmp_path / "embeddings.npy", cloud)
    ways = read_ways(page, "/embeddings")
    shell(ways["curl"])
    shell(ways["Command line"])
    (tmp_path / "upload.py").write_text(ways["Python"])
    shell(f"'{sys.executable}' upload.py")
    rows = [isoscope.embedding(row) for row in isoscope.embeddings()]
    assert [(row["filename"], row["status"]) for row in rows] == [("embeddings.npy", "inspecting")] * 3
    assert len({row["files"][0]["file_sha256"] for row in rows}) == 1
    assert read_ways(page, "/experiments/new", **form | {"lambdas": "much"}) == {}
