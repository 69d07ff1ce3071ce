"""Environments with one built wheel and, of the packages installed here, only its dependencies."""

import subprocess
import sys
import venv
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from sysconfig import get_path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
BUILD = "import sys; from hatchling.build import build_wheel; build_wheel(sys.argv[1])"
OURS = ("isoscope", "isoscope-server")


def build_wheels(folder: Path) -> list[Path]:
    for project in (ROOT / "isoscope", ROOT):
        subprocess.run([sys.executable, "-c", BUILD, str(folder)], cwd=project, check=True, capture_output=True)
    return [folder / f"{name.replace('-', '_')}-{distribution(name).version}-py3-none-any.whl" for name in OURS]


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
