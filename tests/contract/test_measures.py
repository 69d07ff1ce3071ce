import ast
from pathlib import Path

from isotropy.catalog import MEASURES
from isotropy.catalog.findings import FINDINGS
from isotropy.findings import CHECKS

TESTS = Path(__file__).parent.parent


def _marked_slugs(folder):
    """Yield the arguments of each ``@pytest.mark.measure("isoscore")`` in a folder."""
    for file in sorted((TESTS / folder).glob("test_*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.measure":
                yield from (ast.literal_eval(argument) for argument in node.args)


CHECKED = {*_marked_slugs("oracle"), *_marked_slugs("property")}


def test_every_measure_has_an_oracle_or_a_law():
    unchecked = [slug for slug in MEASURES if slug not in CHECKED]
    assert unchecked == [], "mark a test of tests/oracle or tests/property with @pytest.mark.measure(slug)"
    assert set(MEASURES) >= CHECKED
    assert set(FINDINGS) == {check.__name__ for check in CHECKS} | {"drift"}
