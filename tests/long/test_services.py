"""The services of docker-compose.yml, in containers, measure, train, survive a lost worker and are restored.

If PostgreSQL's image could not be pulled, one built from Debian packages replaces it, and the output says so.
"""

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import images
from tests.engine import Engine, Services

TOKEN = "a-secret-of-some-length"
STANDIN = Path(__file__).parent / "postgres"
POSTGRES = images.compose()["services"]["postgres"]["image"]
SECONDS = 600

ASK = """
import json
from isoscope.client import Isoscope
isoscope = Isoscope("http://127.0.0.1:8000")
print(json.dumps({}))
"""

UPLOAD = """
import json
import numpy as np
from isoscope.client import Isoscope
np.save("/data/tmp/cloud.npy", np.random.default_rng(0).normal(size=(200, 8)))
print(json.dumps(Isoscope("http://127.0.0.1:8000").upload("/data/tmp/cloud.npy")))
"""

TRAIN = """
import json
from isoscope.client import Isoscope
isoscope = Isoscope("http://127.0.0.1:8000")
rows = "/srv/isoscope/samples/agreement/"
dataset = isoscope.upload_dataset(rows + "train.tsv", rows + "validation.tsv", name="agreement")
print(json.dumps(isoscope.sweep({
    "name": "four steps", "model": "all-MiniLM-L6-v2", "dataset_id": dataset["id"], "text_columns": ["sentence"],
    "label_column": "label", "lambdas": [1.0], "seeds": [0], "epochs": None, "max_steps": 4, "max_length": 32,
    "shrinkage_points": 5000,
})))
"""


@pytest.fixture(scope="module")
def engine(figures: list[str]) -> Engine:
    runtime = Engine.find()
    if runtime is None:
        pytest.skip("no container engine works here: install docker or podman, or name one in ISOSCOPE_ENGINE")
    environment = os.environ | {"ISOSCOPE_ENGINE": runtime.command}
    began = time.monotonic()
    subprocess.run(["make", "images"], cwd=images.ROOT, env=environment, check=True)
    figures.append(f"both images: {time.monotonic() - began:.0f} s to build, without the steps built before")
    ours = [images.compose()["services"][name]["image"] for name in ("web", "worker")]
    sizes = {
        image: int(runtime("image", "inspect", "--format", "{{.Size}}", image))
        for image in (*images.base_images(), *ours)
    }
    figures.extend(f"{image}: {size / 1e6:.0f} MB" for image, size in sizes.items())
    return runtime


@pytest.fixture(scope="module")
def postgres(engine: Engine, figures: list[str]) -> str:
    if engine.does("image", "inspect", POSTGRES) or engine.does("pull", POSTGRES, seconds=120):
        return POSTGRES
    figures.append(f"{POSTGRES} could not be pulled: a STAND-IN built from Debian packages replaces it")
    engine("build", "--tag", "isoscope-postgres-standin", STANDIN, seconds=900)
    return "isoscope-postgres-standin"


@pytest.fixture
def services(engine: Engine, postgres: str, tmp_path: Path) -> Iterator[Services]:
    (tmp_path / "models").mkdir()
    variables = {
        "POSTGRES_PASSWORD": TOKEN, "ISOSCOPE_ACCESS_TOKEN": TOKEN, "ISOSCOPE_MODELS_DIR": str(tmp_path / "models"),
    }  # fmt: skip
    started = Services(engine, tmp_path, variables, {POSTGRES: postgres})
    yield started
    started.take_down()


def test_services_survive_lost_worker_and_are_restored(engine, services, figures):
    began = time.monotonic()

    def ask(expression: str) -> Any:
        return json.loads(services.python("web", ASK.format(expression)))

    def wait_until(is_met: Callable[[], bool]) -> None:
        end = time.monotonic() + SECONDS
        while not is_met():
            assert time.monotonic() < end, f"waited {SECONDS} s in vain:\n{services.logs()}"
            time.sleep(2)

    def wait_until_healthy(name: str) -> None:
        wait_until(lambda: services.is_healthy(name))

    services.run("postgres")
    wait_until_healthy("postgres")
    assert services.ends_well(services.run("migrate"), SECONDS), services.logs()
    web = services.run("web")
    wait_until_healthy("web")
    worker = services.run("worker", OMP_NUM_THREADS="1")
    wait_until_healthy("worker")

    embedding = json.loads(services.python("web", UPLOAD))
    wait_until(lambda: ask(f"isoscope.embedding({embedding['id']!r})")["status"] == "ready")
    score = ask(f"isoscope.score({embedding['id']!r})")
    assert score["isoscore"]["value"] == pytest.approx(0.95, abs=0.05)

    experiment = json.loads(services.python("web", TRAIN))
    run = experiment["runs"][0]["id"]
    wait_until(lambda: ask(f"isoscope.run({run!r})")["status"] != "queued")
    assert ask(f"isoscope.run({run!r})")["status"] == "running"
    engine("rm", "--force", worker)
    other_worker = services.run("worker", called="other-worker", OMP_NUM_THREADS="1")
    wait_until(lambda: ask(f"isoscope.run({run!r})")["status"] in ("finished", "failed"))
    ended = ask(f"isoscope.run({run!r})")
    assert (ended["status"], max(step["step"] for step in ended["steps"])) == ("finished", 4), ended

    engine("exec", web, "isoscope", "backup", "/backups")
    ask(f"[isoscope.trash_embedding({embedding['id']!r}), isoscope.purge_embedding({embedding['id']!r})]")
    assert embedding["id"] not in [row["id"] for row in ask("isoscope.embeddings()")]
    services.stop(web, "web")
    services.stop(other_worker, "worker")
    restoring = services.run("web", "isoscope", "restore", "/backups", "--replace", called="restoring")
    assert services.ends_well(restoring, SECONDS), services.logs()
    engine("start", web)
    wait_until_healthy("web")
    assert ask(f"isoscope.score({embedding['id']!r})") == score
    assert ask(f"isoscope.run({run!r})") == ended

    services.stop(web, "web")
    services.stop(services.container("postgres"), "postgres")
    figures.append(
        "the services of docker-compose.yml: measured, trained four steps, lost a worker, were backed up and restored, "
        f"ended: {time.monotonic() - began:.0f} s"
    )
