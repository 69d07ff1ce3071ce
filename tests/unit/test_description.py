import pytest

from app.descriptions.service import clean_tags
from isoscope.core.errors import InvalidError


def test_tags_are_trimmed_deduplicated_and_sorted():
    assert clean_tags([" words ", "BERT", "", " a  b\t", " alpha"]) == ["a b", "alpha", "BERT", "words"]
    assert clean_tags(["Bert", "bert", "BERT", "ÉTÉ", "été"]) == ["Bert", "ÉTÉ"]
    assert clean_tags(["x" * 40]) == ["x" * 40]
    assert len(clean_tags([f"t{i}" for i in range(20)])) == 20


@pytest.mark.parametrize(
    ("tags", "message"),
    [
        (["x" * 41], f"Expected tags of at most 40 characters, got '{'x' * 41}' of 41. Shorten it, "
         "or write it into the notes."),
        (["x" * 500_000], f"got '{'x' * 80}'... of 500,000."),
        ([f"{'x' * 500},"], f"Tags cannot contain commas, because commas separate tags. Got '{'x' * 80}'...."),
        ([f"t{i}" for i in range(21)], "Expected at most 20 tags, got 21. Leave some out."),
    ],
)  # fmt: skip
def test_invalid_tags_are_refused(tags, message):
    with pytest.raises(InvalidError) as refused:
        clean_tags(tags)
    assert message in refused.value.message
    assert refused.value.field == "tags"
