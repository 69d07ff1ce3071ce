"""Names in code say what they hold, and a public class has a name of its own."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
VAGUE = set(
    """
    one ones found told said asked given kept shown named made taken seen known wanted wants there here it its
    they them that this those these which what who whose something anything nothing everything of place places
    rest other others another most more least left beside apart alone together each every both many few tell
    tells telling say says own such whole
    """.split()  # noqa: SIM905
)
EXCEPTIONS = {"place": "A field of /api/space: where a kind of data is stored."}
# Rooms whose names are finished. Rewritten by another issue, and not among them: app/results/conclusion,
# app/results/statistics, app/tasks, app/postprocess, workers/tasks.py, workers/postprocess.py.
PLAIN_ROOMS = (
    "app/operations", "app/web", "app/storage", "app/figures", "app/queue.py", "app/sandbox.py", "app/context.py",
    "app/routes.py", "app/main.py", "app/__main__.py", "app/feature.py", "workers/__main__.py", "workers/executor.py",
    "workers/failure.py", "workers/files.py", "workers/job_rows.py", "workers/jobs.py", "workers/locks.py",
    "workers/models.py", "workers/notices.py", "workers/playground.py", "workers/preload.py", "workers/process.py",
    "workers/reconciler.py",
)  # fmt: skip


def list_modules(room: str) -> list[Path]:
    path = ROOT / room
    return [path] if path.is_file() else sorted(path.rglob("*.py"))


def bound_names(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Yield every name that a module binds, with its line."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name, node.lineno
            case ast.arg():
                yield node.arg, node.lineno
            case ast.Name(ctx=ast.Store()):
                yield node.id, node.lineno
            case ast.Attribute(ctx=ast.Store()):
                yield node.attr, node.lineno
            case ast.ExceptHandler(name=str(name)):
                yield name, node.lineno


@pytest.mark.parametrize("room", PLAIN_ROOMS)
def test_no_name_is_vague(room):
    modules = list_modules(room)
    assert modules
    vague = [
        f"{module.relative_to(ROOT)}:{line} {name}"
        for module in modules
        for name, line in bound_names(ast.parse(module.read_text("utf-8")))
        if name.strip("_").lower() in VAGUE - EXCEPTIONS.keys()
    ]
    assert vague == []


def test_public_classes_of_plain_rooms_are_unique():
    modules_by_class = defaultdict(set)
    for package in ("app", "workers", "isoscope", "isotropy"):
        for module in list_modules(package):
            for node in ast.walk(ast.parse(module.read_text("utf-8"))):
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    modules_by_class[node.name].add(str(module.relative_to(ROOT)))
    repeated = {
        name: sorted(modules)
        for name, modules in modules_by_class.items()
        if len(modules) > 1 and all(module.startswith(PLAIN_ROOMS) for module in modules)
    }
    assert repeated == {}


def test_exceptions_are_few_and_needed():
    assert len(EXCEPTIONS) <= 10
    names = {
        name
        for room in PLAIN_ROOMS
        for module in list_modules(room)
        for name, _ in bound_names(ast.parse(module.read_text("utf-8")))
    }
    assert EXCEPTIONS.keys() <= names & VAGUE
