"""A measure that nobody checks must not be shown."""

import ast
from pathlib import Path

from isotropy.catalog import MEASURES
from isotropy.catalog.findings import FINDINGS
from isotropy.findings import CHECKS

TESTS = Path(__file__).parent.parent


def _checked(folder):
    """Slugs that a test of the folder is marked with: ``@pytest.mark.measure("isoscore")``."""
    for file in sorted((TESTS / folder).glob("test_*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.measure":
                yield from (ast.literal_eval(argument) for argument in node.args)


CHECKED = {*_checked("oracle"), *_checked("property")}


def test_every_measure_is_checked_against_an_oracle_or_a_law():
    unchecked = [slug for slug in MEASURES if slug not in CHECKED]
    assert unchecked == [], "mark a test of tests/oracle or tests/property with @pytest.mark.measure(slug)"


def test_every_mark_names_a_measure_of_the_catalogue():
    assert set(MEASURES) >= CHECKED


def test_the_catalogue_has_every_finding():
    assert set(FINDINGS) == {check.__name__ for check in CHECKS} | {"drift"}
