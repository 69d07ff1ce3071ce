"""Tags as a user types them."""

import pytest

from app.descriptions.service import clean_tags, split_tags
from isoscope.core.errors import InvalidError


def test_tags_are_parted_by_commas_trimmed_and_sorted_whatever_their_case():
    assert clean_tags(split_tags(" words ,BERT,, a  b\t, alpha")) == ["a b", "alpha", "BERT", "words"]


def test_of_two_spellings_the_first_stays():
    assert clean_tags(["Bert", "bert", "BERT", "ÉTÉ", "été"]) == ["Bert", "ÉTÉ"]


def test_forty_characters_and_twenty_tags_are_allowed():
    assert clean_tags(["x" * 40]) == ["x" * 40]
    assert len(clean_tags([f"t{i}" for i in range(20)])) == 20


@pytest.mark.parametrize(
    ("tags", "sentence"),
    [
        (["x" * 41], f"Expected tags of at most 40 characters, got '{'x' * 41}' of 41. Shorten it, "
         "or write it into the notes."),
        (["x" * 500_000], f"Expected tags of at most 40 characters, got '{'x' * 80}'... of 500,000. Shorten it, "
         "or write it into the notes."),
        ([f"{'x' * 500},"], f"Expected tags without commas, which part tags on the page; got '{'x' * 80}'...."),
        ([f"t{i}" for i in range(21)], "Expected at most 20 tags, got 21. Leave some out."),
        (["a, b"], "Expected tags without commas, which part tags on the page; got 'a, b'."),
    ],
)  # fmt: skip
def test_tags_that_cannot_be_kept_are_told(tags, sentence):
    with pytest.raises(InvalidError) as refused:
        clean_tags(tags)
    assert (refused.value.message, refused.value.field) == (sentence, "tags")
