import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import and_, true
from sqlalchemy.dialects import postgresql, sqlite

from app.db.config import TrainingOptions
from app.results.search.conditions import FIELDS, SearchTerm, SearchValue, parse_conditions, parse_search, sort_column
from isoscope.core.errors import InvalidError
from isoscope.core.formatting import quote_for_search

TYPED = st.lists(
    st.sampled_from([*FIELDS, *':=<>!,"- \\%_', "λ", "!=", "<=", "none", "1e-5", "−1", "2026-01-31", "finished", "x"]),
    max_size=12,
).map("".join)


def terms(q):
    return [(t.negated, t.field, t.operator, [value.text for value in t.values]) for t in parse_search(q)]


def refusal(q):
    with pytest.raises(InvalidError) as caught:
        parse_conditions(q)
    assert caught.value.field == "q"
    return caught.value.message


def outcome(q):
    """Return the condition of a search, or its error."""
    try:
        return and_(true(), *parse_conditions(q)), None
    except InvalidError as error:
        return None, error


class TestLanguage:
    @pytest.mark.parametrize(
        ("q", "expected"),
        [
            ("", []),
            ("bert-base cola", [(False, "", ":", ["bert-base"]), (False, "", ":", ["cola"])]),
            ("cola,sst2", [(False, "", ":", ["cola", "sst2"])]),
            ("task:cola lam<0", [(False, "task", ":", ["cola"]), (False, "lam", "<", ["0"])]),
            ("lam >= -1 bert", [(False, "lam", ">=", ["-1"]), (False, "", ":", ["bert"])]),
            ("seed:0, 1", [(False, "seed", ":", ["0", "1"])]),
            ("-status:failed", [(True, "status", ":", ["failed"])]),
            ("-bert", [(True, "", ":", ["bert"])]),
            ("cola -bert", [(False, "", ":", ["cola"]), (True, "", ":", ["bert"])]),
            ('a-b -"c"', [(False, "", ":", ["a-b"]), (True, "", ":", ["c"])]),
            ('task="my data, 2"', [(False, "task", "=", ["my data, 2"])]),
            ('"lam:0"', [(False, "", ":", ["lam:0"])]),
            (r'"a\"b\\c"', [(False, "", ":", ['a"b\\c'])]),
            ("model:org/name:1", [(False, "model", ":", ["org/name:1"])]),
            ("org/name:1", [(False, "", ":", ["org/name:1"])]),
            ("reg!=istar", [(False, "reg", "!=", ["istar"])]),
        ],
    )
    def test_parse_search_reads_words_and_conditions(self, q, expected):
        assert terms(q) == expected

    def test_character_positions_count_from_one(self):
        assert parse_search("a lam:1,2") == [
            SearchTerm("", ":", [SearchValue("a", 1)], 1),
            SearchTerm("lam", ":", [SearchValue("1", 7), SearchValue("2", 9)], 3),
        ]

    @given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=50))
    def test_quoted_text_is_read_unchanged(self, text):
        assert terms(f"task:{quote_for_search(text)}") == [(False, "task", ":", [text])]


class TestRefusals:
    @pytest.mark.parametrize(
        ("q", "sentence"),
        [
            ("lam<", "Expected a value at character 5 of the search, got the end."),
            ("seed:0,", "Expected a value at character 8 of the search, got the end."),
            ("lam:,", "a value at character 5 of the search, got ','; put quotes round a name that contains it."),
            ("a =5", "There is no field 'a', at character 1 of the search; fields are accumulation, "),
            ("a, =5", "Expected a word or a condition such as lam<0 at character 4 of the search, got '='; "),
            ("=5", "Expected a word or a condition such as lam<0 at character 1 of the search, got '='; "),
            ("x -", "Expected a word or a condition such as lam<0 at character 3 of the search, got '-'; put quotes"),
            ('x "abc', "The quotes at character 3 are not closed; close them."),
            ("bert color:red", "There is no field 'color', at character 6 of the search; fields are accumulation, "),
            ("acuracy>0.8", "There is no field 'acuracy', at character 1 of the search; did you mean accuracy? Quote"),
            ("color:red", "zeta. Quote words that are not fields."),
            ("a OR b", "OR at character 3 of the search has no meaning: put commas between values, such as seed:0,1"),
            ("NOT a", "NOT at character 1 of the search has no meaning: put a hyphen before what must not hold"),
            ("iso>0,2", "Expected one value after iso> at character 5 of the search, got 2; write decimals with a"),
            ("lam<abc", "Expected a number after lam< at character 5 of the search, got 'abc'."),
            ("lam:nan", "Expected a finite number after lam: at character 5 of the search, got 'nan'."),
            ("seed:1e999", "Expected a finite number after seed: at character 6 of the search, got '1e999'."),
            ("lam<none", "Expected a number after lam< at character 5 of the search, got 'none'."),
            (
                "status:done",
                "Expected one of queued, running, paused, streaming, finished, failed, cancelled, pruned after status: "
                "at character 8 of the search, got 'done'.",
            ),
            ("status=fin", "Expected one of queued, running, "),
            ("export:maybe", "Expected yes or no after export: at character 8 of the search, got 'maybe'."),
            ("launched>yesterday", "2026-01-31 after launched> at character 10 of the search, got 'yesterday'"),
            ("task<3", "task at character 1 of the search is compared with :, = or !=, got <."),
            ("-export>=yes", "export at character 2 of the search is compared with :, = or !=, got >=."),
            ("x" * 4001, "Expected a search of at most 4000 characters, got 4001."),
            ("lam:1_000", "Expected a number after lam: at character 5 of the search, got '1_000'."),
            ("a - b", "such as lam<0 at character 3 of the search, got '-'; put quotes round a name that contains it."),
            ("x " * 101, "Expected at most 100 words and values in a search, got 101."),
            ("a\0b", "Expected a search in text, got a character that no text has."),
            ("a\ud800b", "Expected a search in text, got a character that no text has."),
        ],
    )
    def test_parse_error_names_its_position(self, q, sentence):
        assert sentence in refusal(q)

    def test_unknown_sort_field_lists_valid_fields(self):
        with pytest.raises(InvalidError) as caught:
            sort_column("color")
        assert caught.value.field == "sort"
        assert caught.value.message.startswith("Expected a field to sort by, got 'color'; fields are accumulation, ")

    @given(TYPED | st.text(max_size=40))
    def test_any_input_is_a_condition_or_refused(self, q):
        conditions, problem = outcome(q)
        if problem is not None:
            assert (problem.field, problem.message[-1]) == ("q", ".")
            return
        for dialect in (postgresql, sqlite):
            assert "'x'" not in str(conditions.compile(dialect=dialect.dialect()))


def test_every_scalar_setting_is_a_search_field():
    several = {"text_columns", "layers", "fixed_regularizers"}
    assert set(TrainingOptions.model_fields) - several - {"task"} <= set(FIELDS)
    assert several.isdisjoint(FIELDS)
    assert FIELDS["kind"].operators == (":", "=")
    (term,) = parse_search("experiment:" + ",".join(f"{i:032x}" for i in range(100)))
    assert len(term.values) == 100
