import pytest

from isoscope.core.errors import InvalidError
from isoscope.files.yaml_document import MAX_CHARACTERS, MAX_DEPTH, read_yaml, write_yaml

BOMB = "a: &a [x, x, x]\nb: &b [*a, *a, *a]\nc: [*b, *b, *b]\n"


def test_yaml_round_trips_and_dates_stay_text():
    document = {
        "name": 'Bob\'s "x" $HOME `date` #1: é\n---',
        "lambdas": [-1.0, 1e-05],
        "epochs": None,
        "regularizers": [],
        "grid": {"layers": [[1, 2], "last", None], "fixed_regularizers": [{}, {"istar": 0.5}]},
    }
    text = write_yaml(document, {"lambdas": "Of each regularizer."})
    assert read_yaml(text) == document
    assert "\n# Of each regularizer.\nlambdas: [-1.0, 1.0e-05]\nepochs: null\n" in text
    assert read_yaml("name: 2024-01-01") == {"name": "2024-01-01"}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (BOMB, "Expected plain values in YAML, got an anchor, alias or tag in line 1."),
        ("a: 1\nb: !!python/name:os.system", "Expected plain values in YAML, got an anchor, alias or tag in line 2."),
        ("a: *b", "Expected plain values in YAML, got an anchor, alias or tag in line 1."),
        ("a: 1\na: 2", "Expected each setting once, got a again in line 2."),
        ("grid:\n  seed: [1]\n  seed: [2]", "Expected each setting once, got seed again in line 3."),
        ("- 1", "Expected YAML with one setting per line, such as lambdas: [-1, 1]."),
        ("", "Expected YAML with one setting per line, such as lambdas: [-1, 1]."),
        ("1: 2", "Expected the name of a setting in line 1, got another kind of key."),
        ("? [1]\n: 2", "Expected the name of a setting in line 1, got another kind of key."),
        ("a: [", "This is not YAML in line 1: expected the node content, but found '<stream end>'."),
        ("a: 1\n---\nb: 2", "This is not YAML in line 2: but found another document."),
        ("a: \x00", "This is not YAML: unacceptable character #x0000"),
        (f"a: {'9' * 5000}", "Expected integers of up to 20 digits, got more in line 1."),
        (f"a: 0x{'f' * 60000}", "Expected integers of up to 20 digits, got more in line 1."),
        (f"a: 1{':10' * 20000}.5", "Expected a number in line 1, got one of 60,003 characters."),
        ("a: 9007199254740993", "Expected integers of at most 9,007,199,254,740,992, got 9,007,199,254,740,993."),
        ("a: [1, .nan]", "Expected finite numbers, got nan."),
        ("a: {b: -.inf}", "Expected finite numbers, got -inf."),
        ('a: "\\ud800"', "The YAML contains NUL or half of a surrogate pair, which are not text."),
        ('"\\0": 1', "The YAML contains NUL or half of a surrogate pair, which are not text."),
        ("a:\n" + "- [[[[]]]]\n" * 5800, "Expected at most 2,500 values in YAML, got more in line"),
        (f"a: {'[' * 5000}", f"Expected YAML at most {MAX_DEPTH} levels deep, got more in line 1."),
        ("a" * (MAX_CHARACTERS + 1), "Expected at most 65,536 characters of YAML, got 65,537."),
    ],
)
def test_invalid_yaml_is_refused_by_line(text, sentence):
    with pytest.raises(InvalidError) as refused:
        read_yaml(text)
    assert refused.value.message.startswith(sentence)
    assert refused.value.field == "yaml"
