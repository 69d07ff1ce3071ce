import pytest

from app.postprocess.trial import TrialComparison, outcome_of
from isotropy.catalog import MEASURES
from tests.factories import measurement


def compared(**values):
    """Each measure as its value before and after."""
    triples = [(slug, measurement(slug, before), measurement(slug, after)) for slug, (before, after) in values.items()]
    return [TrialComparison(MEASURES[slug], before, after, None) for slug, before, after in triples]


def test_each_measure_is_told_with_both_values_and_labels_have_a_sentence_of_their_own():
    outcomes = compared(isoscore=(0.59, 0.762), mean_cosine=(0.06, -0.001), partition_log=(-1.46, -17.9))
    assert outcome_of("Soft ZCA whitening", outcomes) == (
        "On rows that Soft ZCA whitening has not seen, IsoScore rises from 0.590 to 0.762; the mean cosine falls from "
        "0.06 to 0.00; the partition function's logarithm gets worse, from −1.46 to −17.9."
    )
    outcomes = compared(isoscore=(0.5, 0.4), partition_log=(-2.0, -1.0), silhouette=(0.1, 0.25))
    assert outcome_of("Centering", outcomes) == (
        "On rows that Centering has not seen, IsoScore falls from 0.500 to 0.400; the partition function's logarithm "
        "gets better, from −2.00 to −1.00. The silhouette of the labels rises from 0.100 to 0.250."
    )


def test_what_does_not_change_in_the_digits_shown_stays_and_has_no_interval():
    assert outcome_of("Centering", compared(isoscore=(0.5, 0.50001))).endswith("IsoScore stays at 0.500.")
    (outcome,) = compared(mean_share=((0.5, 0.03), 0.4))
    assert (outcome.change.value, outcome.change.se, outcome.change.low) == (pytest.approx(-0.1), None, None)


@pytest.mark.parametrize("values", [(None, 0.5), (0.5, None)])
def test_of_what_is_undefined_nothing_is_said(values):
    assert outcome_of("Centering", compared(isoscore=values)) == ""
