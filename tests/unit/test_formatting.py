import math
from datetime import timedelta

import pytest

from app.core.names import file_stem
from app.db.types import utcnow
from app.descriptions.service import clean_tags
from isoscope.core import formatting
from isoscope.core.effects import effect_sentence
from isoscope.core.errors import InvalidError
from isoscope.plain import require_bounded, to_json_value, to_number


@pytest.mark.parametrize(
    ("write", "values"),
    [
        (formatting.number, {None: "–", 0: "0", 0.847123: "0.847", -12.34: "−12.3", 0.9999: "1.00", 999.9: "1,000",
                             48213.4: "48,213", 0.000123456: "0.000123", 0.0000123456: "1.23 × 10⁻⁵",
                             9.999e-5: "0.000100", -5e9: "−5.00 × 10⁹"}),
        (formatting.percent, {0: "0%", 0.0004: "less than 0.1%", 0.0005: "0.1%", 0.0994: "9.9%", 0.0996: "10%",
                              0.614: "61%", 0.9895: "99%", 0.9934: "99.3%", 0.99996: "more than 99.9%", 1: "100%",
                              1 + 1e-12: "100%"}),
        (formatting.duration, {None: "–", 3.21: "3.2 s", 9.96: "10.0 s", 59.7: "1 min", 125: "2 min 5 s", 3600: "1 h",
                               90061: "1 d 1 h"}),
        (formatting.two_decimals, {0.4: "0.40", -0.125: "−0.12", -0.0: "0.00", -0.001: "0.00", 1: "1.00"}),
        (formatting.short, {None: "–", -1.0: "−1", 0.2: "0.2", 3e-5: "3e−5", 0.5: "0.5"}),
        (formatting.tick, {0: "0", -1.0: "−1", 30_000.0: "30,000", 9.90338: "9.90"}),
        (formatting.size, {999: "999 bytes", 9_612_000: "9.61 MB", 2**31: "2.15 GB"}),
        (formatting.limit, {2**31: "2 GiB", 200 * 2**20: "200 MiB", 2**10: "1 KiB", 5_000: "5.00 kB"}),
    ],
)  # fmt: skip
def test_numbers_are_formatted_by_kind(write, values):
    assert {value: write(value) for value in values} == values


@pytest.mark.parametrize(
    ("write", "texts"),
    [
        (formatting.with_error, {(-0.005, 0.0661): "−0.005 ± 0.066", (0.81234, 0.0123): "0.812 ± 0.012",
                                 (-0.0004, 0.066): "0.000 ± 0.066", (1234.5, 22.6): "1,234 ± 23",
                                 (0.5, 1e-6): "0.500 ± 1.0 × 10⁻⁶", (0.5, 0): "0.500 ± 0", (0.5, None): "0.500"}),
        (formatting.significant, {(0.0908, 0.03): "0.091", (0.625, 0.0031): "0.625", (188.2, 0.91): "188",
                                  (-0.5, 0.21): "−0.50", (2.0, 12): "2", (0.5, None): "0.500", (0.5, 0): "0.500",
                                  (1e-9, 1e-10): "1.00 × 10⁻⁹"}),
    ],
)  # fmt: skip
def test_value_has_digits_that_its_error_allows(write, texts):
    assert {value_and_error: write(*value_and_error) for value_and_error in texts} == texts


def test_counts_have_thousands_separators_and_long_texts_are_cut():
    assert formatting.count(250_000) == "250,000"
    assert formatting.count(None) == "–"
    assert formatting.plural(1, "run") == "1 run"
    assert formatting.plural(2, "index", "indices") == "2 indices"
    assert formatting.quote("x" * 80) == repr("x" * 80)
    assert formatting.quote("x" * 81) == repr("x" * 80) + "..."
    assert formatting.listed(["a", "b"]) == "'a', 'b'"
    assert formatting.listed([str(i) for i in range(1012)]).endswith("'9' and 1,002 more")
    assert formatting.storable("é\ud800\0") == "é?\ufffd"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-5, "just now"), (59, "just now"), (60, "1 minute ago"), (7200, "2 hours ago"), (90_000, "1 day ago")],
)
def test_ago_has_one_unit(seconds, text):
    now = utcnow()
    assert formatting.ago(now - timedelta(seconds=seconds), now) == text


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


@pytest.mark.parametrize(
    ("name", "stem"),
    [
        ("word2vec.npz, ZCA whitening", "word2vec-zca-whitening"),
        ("word2vec.npz, Soft ZCA whitening, eps 0.5", "word2vec-soft-zca-whitening-eps-0.5"),
        ("a.CSV, Centering", "a-centering"),
        ("whitened / twice", "whitened-twice"),
        ("../../.bashrc", "bashrc"),
        ("glove.6B.50d", "glove.6b.50d"),
        ("Wörter 2", "wörter-2"),
        ("…", "embedding"),
    ],
)
def test_display_name_becomes_file_stem(name, stem):
    assert file_stem(name) == stem


@pytest.mark.parametrize(
    ("value", "expected", "reason"),
    [(0.5, 0.5, None), (-0.0, 0.0, None), (1e-120, 0.0, None), (-3e99, -3e99, None),
     (1e101, None, "loss is beyond 1e+100"), (-math.inf, None, "loss is infinite"),
     (math.nan, None, "loss is not a number"), ("much", None, "loss is not a number"),
     (10**400, None, "loss is not a number")],
)  # fmt: skip
def test_unstorable_number_is_none_with_reason(value, expected, reason):
    reasons = []
    assert to_number(value, "loss", reasons) == expected
    assert reasons == ([] if reason is None else [reason])


@pytest.mark.parametrize(
    ("value", "expected"),
    [(1e-120, "1e-120"), (-1e300, "-1e+300"), (2**60, str(2**60)), (2**53, 2**53), (0.0, 0.0), (math.inf, "inf"),
     (True, True)],
)  # fmt: skip
def test_setting_beyond_number_range_becomes_text(value, expected):
    assert to_json_value(value) == expected
    assert require_bounded(to_json_value(value)) == expected


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
