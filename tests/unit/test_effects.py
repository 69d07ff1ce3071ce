import pytest

from isoscope.core.effects import effect_sentence


@pytest.mark.parametrize(
    ("slug", "measure", "values", "sentence"),
    [
        ("common_mean", "top10_kept", (1.0, 0.81, None), "Fixing it changes 19% of the 10 nearest neighbors."),
        ("hubs", "top10_kept", (1.0, 0.998, None), "Fixing it changes 0.2% of the 10 nearest neighbors."),
        ("drift", "top10_kept", (1.0, 0.6, None), "40% of the 10 nearest neighbors changed."),
        ("outlier_rows", "isoscore", (0.1, 0.5, 0.02), "IsoScore: 0.100 before fixing, 0.500 (SE 0.020) after."),
        ("collapsed", "isoscore", (None, None, None), "IsoScore: undefined before fixing, undefined after."),
        ("drift", "energy_distance", (0.0, 0.25, None), "Energy distance (0 to 1): 0 in the baseline, 0.250 now."),
    ],
)
def test_effect_sentence_compares_values(slug, measure, values, sentence):
    assert effect_sentence(slug, measure, *values) == sentence
