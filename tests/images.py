"""`Dockerfile`, `.dockerignore` and the compose files, read for tests where there is no container engine."""

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
    """YAML with compose's tag for what an override takes away."""


ResetLoader.add_constructor("!reset", lambda loader, node: None)


def dockerfile() -> dict[str, list[Instruction]]:
    """The stages by name, each with the instructions of the stages it is made from, FROM left out."""
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


def bases() -> set[str]:
    sources = set(re.findall(r"^FROM (\S+)", (ROOT / "Dockerfile").read_text(), re.MULTILINE))
    return sources - set(dockerfile())


def last(stage: list[Instruction], name: str) -> str:
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


def interpolated(text: str, variables: dict[str, str]) -> str:
    """The text with ${NAME:-default} and ${NAME:?message} filled in; KeyError where a required one is not given."""

    def value(match: re.Match[str]) -> str:
        name, operator, default = match.groups()
        return variables.get(name) or default if operator == ":-" else variables[name]

    return INTERPOLATED.sub(value, text)


def copy_context(target: Path) -> None:
    """What `.dockerignore` lets through. It names top-level entries after `*`, and names at any depth after `**/`."""
    lines = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and not line.startswith("#")]
    assert lines[0] == "*"
    let_through = [line.removeprefix("!") for line in lines if line.startswith("!")]
    left_out = [line.removeprefix("**/") for line in lines if line.startswith("**/")]
    assert len(lines) == 1 + len(let_through) + len(left_out)
    target.mkdir(parents=True)
    for name in let_through:
        assert PurePosixPath(name).name == name
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, target / name, ignore=shutil.ignore_patterns(*left_out))
        else:
            shutil.copy(source, target)
