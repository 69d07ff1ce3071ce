import pytest

from tests.crowd import import_among_writers

STEPS = 1_900_000


@pytest.mark.parametrize("kill", [False, True], ids=["undisturbed", "killed in the middle"])
def test_others_write_during_a_large_import(serving, tmp_path, empty_dashboard, figures, kill):
    import_among_writers(serving(), empty_dashboard, tmp_path, steps=STEPS, kill=kill, figures=figures)
