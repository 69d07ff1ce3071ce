import dataclasses
import subprocess
import sys

import pytest

from isotropy.catalog import GROUPS, MEASURES, directions, labels, neighbours, spread, topology


def test_no_measure_of_a_group_is_lost_in_the_catalog_or_filed_under_another():
    groups = {
        "spread": spread,
        "directions": directions,
        "neighbours": neighbours,
        "topology": topology,
        "labels": labels,
    }
    assert list(groups) == list(GROUPS)
    filed = [(measure.slug, group) for group, module in groups.items() for measure in module.MEASURES]
    assert filed == [(slug, measure.group) for slug, measure in MEASURES.items()]


@pytest.mark.parametrize("measure", MEASURES.values(), ids=MEASURES)
def test_a_measure_is_described_in_full_and_in_one_line_each(measure):
    for text in dataclasses.asdict(measure).values():
        assert text.strip()
        assert "\n" not in text
    assert "(20" in measure.citation


def test_the_catalog_imports_nothing_beyond_the_standard_library():
    code = (
        "import sys, isotropy.catalog;"
        "loaded = {name.partition('.')[0] for name in sys.modules};"
        "print(sorted(loaded & {'torch', 'numpy', 'scipy', 'transformers'}))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
