"""Copy a package to change it, link the others, and run a script on the result."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def copy_package(folder: Path, package: str) -> None:
    shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    for sibling in {"app", "docs", "frontend", "isoscope", "isotropy", "workers"} - {package}:
        (folder / sibling).symlink_to(ROOT / sibling)


def run_script(folder: Path, script: str) -> None:
    (folder / "script.py").write_text(script)
    environment = os.environ | {"PYTHONPATH": str(folder)}
    process = subprocess.run(
        [sys.executable, "script.py"], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stderr
