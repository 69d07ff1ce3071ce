import json
import os
import signal
import subprocess
import sys
import venv
import zipfile
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from sysconfig import get_path

import httpx2
import numpy as np
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.ports import free_port
from tests.waiting import wait_for

ROOT = Path(__file__).parents[2]
BUILD = "import sys; from hatchling.build import build_wheel; build_wheel(sys.argv[1])"
OURS = ("isoscope", "isoscope-server")
TRAIN = """
import isoscope
run = isoscope.log_run("own", dataset="d", model="m", metric="accuracy", seed=0)
run.step(1, task_loss=0.5)
print(run.finish({"accuracy": 0.9}))
"""
LOOK = """
import json, sys, time
from isoscope.cli import main
try:
    main(["--help"])
except SystemExit:
    heavy = ("app", "dbos", "fastapi", "numpy", "plotly", "pydantic", "sqlalchemy", "torch", "workers")
    print(json.dumps([time.process_time(), [name for name in heavy if name in sys.modules]]), file=sys.stderr)
"""


def make_environment(folder: Path, wheels: list[Path], *requirements: str) -> Path:
    """Install wheels by pip without an index, link their dependencies, and return the folder of commands.

    Nothing is downloaded. No other package of this environment can be imported, so an undeclared dependency is
    missing.
    """
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / "bin" / "python"
    options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--no-index", "--no-compile"]
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", *options]
    subprocess.run([*pip, *map(str, wheels)], check=True)
    target_site = Path(get_path("purelib", vars={"base": str(folder), "platbase": str(folder)}))
    site_packages = Path(get_path("purelib"))
    for name in sorted(_top_level_names(requirements)):
        if not (target_site / name).exists():
            (target_site / name).symlink_to(site_packages / name)
    return folder / "bin"


def _top_level_names(requirements: tuple[str, ...]) -> set[str]:
    waiting = [Requirement(text) for text in requirements]
    visited: set[tuple[str, str]] = set()
    names: set[str] = set()
    while waiting:
        requirement = waiting.pop()
        for extra in ("", *requirement.extras):
            key = (canonicalize_name(requirement.name), extra)
            if key in visited:
                continue
            visited.add(key)
            with suppress(PackageNotFoundError):  # a dependency of another platform, or an optional one
                dist = distribution(requirement.name)
                if key[0] not in OURS:
                    names |= {file.parts[0] for file in dist.files or [] if file.parts[0] not in ("..", "__pycache__")}
                required = [Requirement(text) for text in dist.requires or []]
                waiting += [item for item in required if item.marker is None or item.marker.evaluate({"extra": extra})]
    return names


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheels")
    for project in (ROOT / "isoscope", ROOT):
        subprocess.run([sys.executable, "-c", BUILD, str(folder)], cwd=project, check=True, capture_output=True)
    return [folder / f"{name.replace('-', '_')}-{distribution(name).version}-py3-none-any.whl" for name in OURS]


@pytest.fixture
def user_folder(tmp_path):
    folder = tmp_path / "own"
    for name in ("app", "workers", "alembic", "frontend"):
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text(f"raise RuntimeError('this is the other {name}')")
    return folder


@pytest.fixture
def light(tmp_path, wheels):
    return make_environment(tmp_path / "light", wheels[:1], "isoscope")


@pytest.fixture
def server(tmp_path, wheels):
    return make_environment(tmp_path / "server", wheels, "isoscope-server[worker]")


def list_top_folders(wheel):
    with zipfile.ZipFile(wheel) as opened:
        return {name.split("/")[0] for name in opened.namelist() if ".dist-info/" not in name}


def test_wheels_install_only_their_own_packages(wheels):
    assert [list_top_folders(wheel) for wheel in wheels] == [{"isoscope", "isotropy"}, {"app", "workers"}]
    with zipfile.ZipFile(wheels[1]) as opened:
        held = set(opened.namelist())
    files = ("alembic/env.py", "frontend/templates/home.html", "frontend/static/app.css", "samples/agreement/train.tsv")
    assert {f"app/_files/{name}" for name in files} <= held


def test_help_is_fast_and_server_commands_say_what_to_install(light, user_folder):
    looks = [subprocess.run([sys.executable, "-c", LOOK], capture_output=True, text=True, check=True) for _ in range(3)]
    documents = [json.loads(look.stderr) for look in looks]
    assert "measure the vectors of files" in looks[0].stdout
    assert [loaded for _, loaded in documents] == [[]] * 3
    assert min(seconds for seconds, _ in documents) < 0.3
    process = subprocess.run(
        [light / "isoscope", "serve"], cwd=user_folder, capture_output=True, text=True, check=False
    )
    assert process.returncode == 1
    assert process.stderr == "isoscope serve needs the server, which is not installed: pip install isoscope-server\n"


@pytest.mark.long
def test_script_logs_and_uploads_to_server_from_wheel(light, server, user_folder, tmp_path):
    address = f"http://127.0.0.1:{free_port()}"
    env = {name: value for name, value in os.environ.items() if not name.startswith(("ISOSCOPE_", "PYTHONPATH"))}
    env |= {
        "ISOSCOPE_DATA_DIR": str(tmp_path / "data"), "ISOSCOPE_DEVICE": "cpu",
        "ISOSCOPE_PORT": address.rpartition(":")[2], "ISOSCOPE_SAMPLE": "false", "ISOSCOPE_URL": address,
    }  # fmt: skip

    def run_command(*words):
        done = subprocess.run(words, cwd=user_folder, env=env, capture_output=True, text=True, check=False, timeout=600)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def answers():
        assert serving.poll() is None
        try:
            return httpx2.get(f"{address}/api/health").json().get("workers_alive") == 1
        except httpx2.TransportError:
            return False

    np.save(user_folder / "cloud.npy", np.random.default_rng(0).normal(size=(60, 4)))
    (user_folder / "train.py").write_text(TRAIN)
    assert run_command(server / "isoscope", "migrate") == "both databases are up to date\n"
    serving = subprocess.Popen([server / "isoscope", "serve"], cwd=user_folder, env=env, start_new_session=True)
    try:
        wait_for(answers, 300)
        assert "IsoScore" in run_command(light / "isoscope", "upload", "cloud.npy", "--wait")
        assert run_command(light / "python", "train.py") == "True\n"
        assert "own" in run_command(light / "isoscope", "runs")
        page = httpx2.get(address, timeout=60)
        assert page.status_code == 200
        assert httpx2.get(f"{address}/static/{page.text.partition('/static/')[2].partition(chr(34))[0]}").is_success
    finally:
        serving.send_signal(signal.SIGINT)
        assert serving.wait(60) == 0
