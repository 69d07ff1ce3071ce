import pytest

from app.figures.labels import heading


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ("lambda", "λ"),
        ("zeta", "ζ"),
        ("batch_size", "batch size"),
        ("ci95_half_width", "± (95% CI)"),
        ("isoscore_star_mean", "IsoScore★ mean"),
        ("isoscore_star_ci95_half_width", "IsoScore★ ± (95% CI)"),
        ("raw_1", "raw, k = 1"),
        ("centred_3_ci95_half_width", "centered, k = 3 ± (95% CI)"),
    ],
)
def test_a_column_is_called_on_a_page_as_a_reader_would(column, words):
    assert heading(column) == words
