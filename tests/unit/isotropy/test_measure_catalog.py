import dataclasses
import subprocess
import sys

import pytest

from isotropy.catalog import MEASURES


def test_the_catalog_holds_every_measure_of_the_package():
    assert list(MEASURES) == [
        "isoscore",
        "isoscore_star",
        "mean_cosine",
        "anisotropy_raw",
        "anisotropy_centred",
        "mean_share",
        "participation_ratio",
        "spectrum",
        "activation_profile",
        "cosine_histogram",
    ]


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
