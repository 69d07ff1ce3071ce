"""`Dockerfile`, `.dockerignore` and the compose files, parsed without a container engine."""

import json
import re
import shlex
import shutil
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import yaml

ROOT = Path(__file__).parents[1]
INTERPOLATED = re.compile(r"\$\{(\w+)(?:(:[?-])([^}]*))?\}")


class Instruction(NamedTuple):
    name: str
    argument: str


class ResetLoader(yaml.SafeLoader):
    """YAML with compose's tag for removed values."""


ResetLoader.add_constructor("!reset", lambda loader, node: None)


def dockerfile() -> dict[str, list[Instruction]]:
    """Return stages by name, each with the instructions of its base stages, without FROM."""
    lines = [line for line in (ROOT / "Dockerfile").read_text().splitlines() if not line.lstrip().startswith("#")]
    stages: dict[str, list[Instruction]] = {}
    name = ""
    for line in re.sub(r"\\\n\s*", "", "\n".join(lines)).splitlines():
        if not line:
            continue
        instruction = Instruction(*line.split(maxsplit=1))
        if instruction.name == "FROM":
            source, _, name = instruction.argument.split()
            stages[name] = list(stages.get(source, []))
        else:
            stages[name].append(instruction)
    return stages


def base_images() -> set[str]:
    sources = set(re.findall(r"^FROM (\S+)", (ROOT / "Dockerfile").read_text(), re.MULTILINE))
    return sources - set(dockerfile())


def last_argument(stage: list[Instruction], name: str) -> str:
    return next(step.argument for step in reversed(stage) if step.name == name)


def copied_from(stage: list[Instruction]) -> list[str]:
    return [match[1] for step in stage if step.name == "COPY" and (match := re.match(r"--from=(\S+) ", step.argument))]


def command(argument: str) -> list[str]:
    words = json.loads(argument[argument.index("[") :])
    assert isinstance(words, list)
    return words


def environment(stage: list[Instruction]) -> dict[str, str]:
    pairs = [pair for step in stage if step.name == "ENV" for pair in shlex.split(step.argument)]
    return dict(pair.split("=", 1) for pair in pairs)


def compose(name: str = "docker-compose.yml") -> dict[str, Any]:
    content = yaml.load((ROOT / name).read_text(), Loader=ResetLoader)
    assert isinstance(content, dict)
    return content


def interpolate(text: str, variables: dict[str, str]) -> str:
    """Fill in ${NAME:-default} and ${NAME:?message}; raise KeyError for a missing required variable."""

    def value(match: re.Match[str]) -> str:
        name, operator, default = match.groups()
        return variables.get(name) or default if operator == ":-" else variables[name]

    return INTERPOLATED.sub(value, text)


def copy_context(target: Path) -> None:
    """Copy the files that `.dockerignore` allows: `!` allows a top-level entry, `**/` excludes names at any depth."""
    lines = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and not line.startswith("#")]
    assert lines[0] == "*"
    allowed = [line.removeprefix("!") for line in lines if line.startswith("!")]
    excluded = [line.removeprefix("**/") for line in lines if line.startswith("**/")]
    assert len(lines) == 1 + len(allowed) + len(excluded)
    target.mkdir(parents=True)
    for name in allowed:
        assert PurePosixPath(name).name == name
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, target / name, ignore=shutil.ignore_patterns(*excluded))
        else:
            shutil.copy(source, target)
