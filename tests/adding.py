"""A copy of one of our packages to add something to, beside links to the rest, and a script that looks at it."""

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


def look(folder: Path, script: str) -> None:
    (folder / "look.py").write_text(script)
    environment = os.environ | {"PYTHONPATH": str(folder)}
    ran = subprocess.run(
        [sys.executable, "look.py"], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
