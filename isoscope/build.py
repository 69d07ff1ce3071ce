"""Build the light distribution: a wheel of this folder and of ``isotropy``, its sibling folder."""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NOT_SHIPPED = ("build.py", "pyproject.toml")


class IncludePackages(BuildHookInterface[Any]):
    """A build hook that includes both packages in a wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version != "standard":  # an editable installation reads the packages where they are
            return
        repository = Path(self.root).parent
        for package in ("isoscope", "isotropy"):
            for path in sorted((repository / package).rglob("*")):
                if path.is_file() and path.parent.name != "__pycache__" and path.name not in NOT_SHIPPED:
                    build_data["force_include"][str(path)] = str(path.relative_to(repository))
