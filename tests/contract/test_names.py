import ast
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
VAGUE = set(
    """
    one ones found told said asked given kept shown named made taken seen known wanted wants there here it its
    they them that this those these which what who whose something anything nothing everything of place places
    rest other others another most more least left beside apart alone together each every both many few tell
    tells telling say says own such whole
    """.split()  # noqa: SIM905
)
# By name: the modules that may bind it, and why.
EXCEPTIONS = {
    "place": ("app/operations/ app/db/models/encodings.py", "a field of /api/space; a column of the database"),
    "named": ("app/db/point_map.py", "a field of stored map files"),
    "found": ("app/embeddings/api/comparison.py", "a field of /api/compare"),
    "what": ("app/results/api/experiments.py app/training/presets.py", "a field of /api/presets"),
    "every": ("isoscope/callback.py", "a public argument of IsoscopeCallback"),
    "others": ("app/tasks/", "a form field and a field of the API of tasks"),
    "which": ("app/tasks/ isoscope/client/tasks.py", "a parameter of the API and client of tasks"),
    "left": ("tests/browser/test_embedding_pages.py tests/unit/workers/test_evaluation.py", "a side"),
    "of": ("app/tasks/ isoscope/client/tasks.py", "a parameter of the API and client of tasks"),
}
PACKAGES = ("app", "workers", "isoscope", "isotropy")


def list_modules(package: str) -> list[Path]:
    path = ROOT / package
    return [path] if path.is_file() else sorted(path.rglob("*.py"))


@cache
def nodes_of(path: Path) -> list[ast.AST]:
    return [*ast.walk(ast.parse(path.read_text("utf-8")))]


def bound_names(nodes: list[ast.AST]) -> Iterator[tuple[str, int]]:
    """Yield every name that a module binds, with its line."""
    for node in nodes:
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


def vague_names(package: str) -> Iterator[tuple[str, int, str]]:
    for path in list_modules(package):
        for name, line in bound_names(nodes_of(path)):
            if name.strip("_").lower() in VAGUE:
                yield str(path.relative_to(ROOT)), line, name


def is_excepted(module: str, name: str) -> bool:
    return name in EXCEPTIONS and module.startswith(tuple(EXCEPTIONS[name][0].split()))


def test_names_are_not_vague_and_exceptions_are_needed():
    assert all(list_modules(package) for package in (*PACKAGES, "tests"))
    bindings = [binding for package in (*PACKAGES, "tests") for binding in vague_names(package)]
    assert [f"{module}:{line} {name}" for module, line, name in bindings if not is_excepted(module, name)] == []
    assert len(EXCEPTIONS) <= 10
    assert {name for module, _, name in bindings if is_excepted(module, name)} == EXCEPTIONS.keys()


def test_public_classes_are_unique():
    modules_by_class = defaultdict(set)
    for package in PACKAGES:
        for module in list_modules(package):
            for node in nodes_of(module):
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    modules_by_class[node.name].add(str(module.relative_to(ROOT)))
    repeated = {name: sorted(modules) for name, modules in modules_by_class.items() if len(modules) > 1}
    assert repeated == {}


def test_test_files_have_unique_names():
    names = Counter(path.name for path in Path(__file__).parents[1].rglob("test_*.py"))
    assert [name for name, n in names.items() if n > 1] == []
