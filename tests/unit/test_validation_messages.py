from enum import StrEnum
from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, Field, ValidationError

from app.core.validation_messages import describe_error, list_messages


class Request(BaseModel):
    zeta: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = 0.2
    rows: Annotated[int, Field(gt=1, lt=100)] = 5
    sort: Literal["name", "-name", "created"] = "name"
    scale: Literal["", "linear", "log"] = ""
    q: Annotated[str, Field(max_length=3)] = ""
    layers: bool = False
    tag: Annotated[str, Field(pattern="a+")] = "a"
    seeds: Annotated[list[int], Field(min_length=1, max_length=2)] = [0]


class RequiredField(BaseModel):
    file: str


def complaint(**values):
    with pytest.raises(ValidationError) as refused:
        Request.model_validate(values)
    (error,) = refused.value.errors()
    return describe_error(error, error["loc"][:1])


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"zeta": "7"}, "Expected zeta up to 1, got 7."),
        ({"zeta": -0.5}, "Expected zeta of at least 0, got -0.5."),
        ({"zeta": "nan"}, "Expected zeta as a finite number, got 'nan'."),
        ({"zeta": "much"}, "Expected zeta as a number, got 'much'."),
        ({"zeta": None}, "Expected zeta as a number."),
        ({"rows": "many"}, "Expected rows as a whole number, got 'many'."),
        ({"rows": 2.5}, "Expected rows as a whole number, got 2.5."),
        ({"rows": 1}, "Expected rows above 1, got 1."),
        ({"rows": 100}, "Expected rows below 100, got 100."),
        ({"sort": "foo"}, "Expected sort as name, -name or created, got 'foo'."),
        ({"scale": "weird"}, "Expected scale as linear or log, got 'weird'."),
        ({"q": "long"}, "Expected q of at most 3 characters, got 'long'."),
        ({"layers": "perhaps"}, "Expected layers as true or false, got 'perhaps'."),
        ({"seeds": []}, "Expected seeds with 1 or more values, got 0."),
        ({"seeds": [1, 2, 3]}, "Expected seeds with at most 2 values, got 3."),
        ({"tag": "b"}, "tag: String should match pattern 'a+', got 'b'."),
    ],
)
def test_refused_value_states_expectation(values, sentence):
    assert complaint(**values) == sentence


def test_missing_field_is_named_and_long_text_is_cut():
    with pytest.raises(ValidationError) as refused:
        RequiredField.model_validate({})
    assert describe_error(refused.value.errors()[0], ["file"]) == "Expected file, got nothing."
    assert complaint(q="x" * 500) == f"Expected q of at most 3 characters, got '{'x' * 79}."


class Status(StrEnum):
    READY = "ready"
    FAILED = "failed"


class UnionFields(BaseModel):
    layers: Annotated[list[Annotated[int, Field(ge=1)]], Field(min_length=1)] | Literal["all", "last"] | None = None
    vectors: str | list[str] = "x"
    weights: dict[Literal["a", "b"], float] = {}
    status: Status | Literal[""] = ""


@pytest.mark.parametrize(
    ("values", "sentence", "path"),
    [
        ({"layers": "first"}, "Expected layers as a list of whole numbers, all or last, got 'first'.", ["layers"]),
        ({"layers": 5}, "Expected layers as a list of whole numbers, all or last, got 5.", ["layers"]),
        ({"layers": [2, 0]}, "Expected layers.1 of at least 1, got 0.", ["layers", 1]),
        ({"layers": ["a"]}, "Expected layers.0 as a whole number, got 'a'.", ["layers", 0]),
        ({"layers": []}, "Expected layers with 1 or more values, got 0.", ["layers"]),
        ({"vectors": 3}, "Expected vectors as a text, a list of texts, got 3.", ["vectors"]),
        ({"weights": {"c": 1}}, "Expected weights.c as a or b, got 'c'.", ["weights", "c"]),
        ({"weights": {"a": "much"}}, "Expected weights.a as a number, got 'much'.", ["weights", "a"]),
        ({"status": "weird"}, "Expected status as ready or failed, got 'weird'.", ["status"]),
        ({"weights": 1}, "Expected weights as an object, got 1.", ["weights"]),
    ],
)
def test_union_error_names_all_or_intended_types(values, sentence, path):
    with pytest.raises(ValidationError) as refused:
        UnionFields.model_validate(values)
    assert list_messages(refused.value.errors()) == [(sentence, path)]
