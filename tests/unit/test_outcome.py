import pytest

from app.postprocess.trial import TrialComparison, describe_outcome
from isotropy.catalog import MEASURES
from tests.factories import measurement


def compared(**values):
    """Compare each measure's values before and after."""
    triples = [(slug, measurement(slug, before), measurement(slug, after)) for slug, (before, after) in values.items()]
    return [TrialComparison(MEASURES[slug], before, after, None) for slug, before, after in triples]


def test_outcome_sentence_gives_both_values():
    outcomes = compared(isoscore=(0.59, 0.762), mean_cosine=(0.06, -0.001), partition_log=(-1.46, -17.9))
    assert describe_outcome("Soft ZCA whitening", outcomes) == (
        "On rows that Soft ZCA whitening has not seen, IsoScore rises from 0.590 to 0.762; the mean cosine falls from "
        "0.06 to 0.00; the partition function's logarithm gets worse, from −1.46 to −17.9."
    )
    outcomes = compared(isoscore=(0.5, 0.4), partition_log=(-2.0, -1.0), silhouette=(0.1, 0.25))
    assert describe_outcome("Centering", outcomes) == (
        "On rows that Centering has not seen, IsoScore falls from 0.500 to 0.400; the partition function's logarithm "
        "gets better, from −2.00 to −1.00. The silhouette of the labels rises from 0.100 to 0.250."
    )


def test_change_below_shown_digits_is_reported_as_unchanged():
    assert describe_outcome("Centering", compared(isoscore=(0.5, 0.50001))).endswith("IsoScore stays at 0.500.")
    (outcome,) = compared(mean_share=((0.5, 0.03), 0.4))
    assert (outcome.change.value, outcome.change.se, outcome.change.low) == (pytest.approx(-0.1), None, None)


@pytest.mark.parametrize("values", [(None, 0.5), (0.5, None)])
def test_undefined_values_have_no_sentence(values):
    assert describe_outcome("Centering", compared(isoscore=values)) == ""
