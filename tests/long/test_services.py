import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import images

OPTIONS = {"user": "--user", "mem_limit": "--memory", "pids_limit": "--pids-limit", "restart": "--restart"}
LISTS = {"cap_drop": "--cap-drop", "security_opt": "--security-opt", "tmpfs": "--tmpfs"}
FLAGS = {"read_only": "--read-only", "init": "--init"}
HANDLED_APART = {"image", "command", "environment", "volumes", "logging", "healthcheck", "hostname"}
IGNORED = {"build", "ports", "depends_on", "deploy", "stop_grace_period"}


class Engine:
    def __init__(self, command: str) -> None:
        self.command = command

    @classmethod
    def find(cls) -> "Engine | None":
        names = [os.environ["ISOSCOPE_ENGINE"]] if "ISOSCOPE_ENGINE" in os.environ else ["docker", "podman"]
        engines = (cls(path) for name in names if (path := shutil.which(name)) is not None)
        return next((engine for engine in engines if engine.does("info")), None)

    def __call__(self, *words: str | Path, seconds: float = 300, stdin: str | None = None) -> str:
        process = subprocess.run(
            [self.command, *words], capture_output=True, text=True, timeout=seconds, input=stdin, check=False
        )
        assert process.returncode == 0, f"{' '.join(map(str, words))}: {process.stdout[-3000:]}{process.stderr[-3000:]}"
        return process.stdout

    def does(self, *words: str | Path, seconds: float = 300) -> bool:
        try:
            subprocess.run([self.command, *words], capture_output=True, timeout=seconds, check=True)
        except (subprocess.TimeoutExpired, subprocess.CalledProcessError):
            return False
        return True


class Services:
    def __init__(self, engine: Engine, folder: Path, variables: dict[str, str], images_for: dict[str, str]) -> None:
        self._engine = engine
        self._prefix = f"isoscope-test-{os.getpid()}"
        self._variables = variables
        self._images = images_for
        self._file = images.compose()
        self._started: list[str] = []
        self._hosts = folder / "hosts"
        self._hosts.write_text(f"127.0.0.1 localhost {' '.join(self._file['services'])}\n")

    def run(self, name: str, *command: str, called: str = "", **environment: str) -> str:
        """Start a service, named ``called`` if another of its kind runs; return the name of the container.

        With a ``command`` it runs once, as ``docker compose run`` does.
        """
        service = self._file["services"][name] | ({"restart": "no"} if command else {})
        unknown = set(service) - {*OPTIONS, *LISTS, *FLAGS} - HANDLED_APART - IGNORED
        assert not unknown, f"{name} has unknown settings: {unknown}"
        container = self.container(called or name)
        # The engine refuses a host name to a container that shares a network.
        extra = {"ISOSCOPE_WORKER_NAME": called or service["hostname"]} if "hostname" in service else {}
        network = f"container:{self._started[0]}" if self._started else "none"
        words = [*self._options(service), "--network", network, "--volume", f"{self._hosts}:/etc/hosts:ro"]
        words += ["--detach", "--name", container]
        for key, value in (service.get("environment", {}) | extra | environment).items():
            words += ["--env", f"{key}={images.interpolate(str(value), self._variables)}"]
        image = self._images.get(service["image"], service["image"])
        self._started.append(container)
        self._engine("run", *words, image, *(command or service.get("command", [])))
        return container

    def container(self, name: str) -> str:
        return f"{self._prefix}-{name}"

    def ends_well(self, container: str, seconds: float) -> bool:
        return self._engine("wait", container, seconds=seconds).strip() == "0"

    def stop(self, container: str, name: str) -> None:
        self._engine("stop", "--time", self._file["services"][name]["stop_grace_period"].removesuffix("s"), container)

    def is_healthy(self, name: str) -> bool:
        check = self._file["services"][name].get("healthcheck", {}).get("test")
        words = check[1:] if check else images.command(images.last_argument(images.dockerfile()[name], "HEALTHCHECK"))
        return self._engine.does("exec", self.container(name), *words, seconds=60)

    def python(self, name: str, code: str) -> str:
        return self._engine("exec", "--interactive", self.container(name), "python", "-", stdin=code)

    def logs(self) -> str:
        command = [self._engine.command, "logs"]
        printed = {
            name: subprocess.run([*command, name], capture_output=True, text=True, check=False)
            for name in self._started
        }
        return "\n".join(f"== {name}\n{(log.stdout + log.stderr)[-1500:]}" for name, log in printed.items())

    def take_down(self, kept_volume: str = "") -> None:
        for container in reversed(self._started):
            self._engine.does("rm", "--force", "--volumes", container)
        self._started.clear()
        for volume in self._file["volumes"].keys() - {kept_volume}:
            self._engine.does("volume", "rm", "--force", f"{self._prefix}-{volume}")

    def _options(self, service: dict[str, Any]) -> list[str]:
        words = []
        for key, option in OPTIONS.items():
            value = images.interpolate(str(service.get(key, "")), self._variables)
            words += [option, value] if value not in ("", "0") else []
        for key, option in LISTS.items():
            words += [word for value in service.get(key, []) for word in (option, value)]
        words += [option for key, option in FLAGS.items() if service.get(key)]
        words += ["--log-driver", service["logging"]["driver"]]
        for key, value in service["logging"]["options"].items():
            words += ["--log-opt", f"{key}={value}"]
        if service.get("healthcheck", {}).get("disable"):
            words.append("--no-healthcheck")
        for volume in service.get("volumes", []):
            if isinstance(volume, str):
                mount = f"{self._prefix}-{images.interpolate(volume, self._variables)}"
            else:
                source = images.interpolate(volume["source"], self._variables)
                mount = f"{source}:{volume['target']}{':ro' if volume.get('read_only') else ''}"
            words += ["--volume", mount]
        return words


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

    def start(name: str, **environment: str) -> str:
        container = services.run(name, **environment)
        wait_until(lambda: services.is_healthy(name))
        return container

    start("postgres")
    assert services.ends_well(services.run("migrate"), SECONDS), services.logs()
    web = start("web")
    worker = start("worker", OMP_NUM_THREADS="1")

    embedding = json.loads(services.python("web", UPLOAD))
    wait_until(lambda: ask(f"isoscope.embedding({embedding['id']!r})")["status"] == "ready")
    score = ask(f"isoscope.score({embedding['id']!r})")
    assert score["isoscore"]["value"] == pytest.approx(0.95, abs=0.05)

    run = json.loads(services.python("web", TRAIN))["runs"][0]["id"]
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
    services.take_down(kept_volume="backups")
    start("postgres")
    restoring = services.run("web", "isoscope", "restore", "/backups", called="restoring")
    assert services.ends_well(restoring, SECONDS), services.logs()
    web = start("web")
    assert ask(f"isoscope.score({embedding['id']!r})") == score
    assert ask(f"isoscope.run({run!r})") == ended

    services.stop(web, "web")
    services.stop(services.container("postgres"), "postgres")
    figures.append(
        "the services of docker-compose.yml: measured, trained four steps, lost a worker, were backed up and restored, "
        f"ended: {time.monotonic() - began:.0f} s"
    )
