import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
REQUIREMENT = re.compile(r"(?P<name>[\w.-]+)(?:\[.*\])?(?:>=|==)(?P<version>[\w.]+)")


def test_lowest_versions_are_the_lower_bounds():
    lower_bounds = {}
    for file in ("pyproject.toml", "isoscope/pyproject.toml"):
        project = tomllib.loads((ROOT / file).read_text())["project"]
        optional = project["optional-dependencies"]
        extras = [requirement for extra in optional if extra != "test" for requirement in optional[extra]]
        for requirement in (*project["dependencies"], *extras):
            bound = REQUIREMENT.fullmatch(requirement)
            assert bound, f"{requirement} in {file} has no lower bound"
            lower_bounds[bound["name"]] = bound["version"]
    del lower_bounds["isoscope"]
    lines = (ROOT / "requirements.lowest").read_text().splitlines()
    assert dict(line.split("==") for line in lines if not line.startswith("#")) == lower_bounds
