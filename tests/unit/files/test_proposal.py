from types import SimpleNamespace

import pytest

from isoscope.files.contents import Annotation, Part
from isoscope.files.selection import Selection, excluded_columns, possible_labels, propose


def part(name, n=10, d=4):
    return Part(name=name, n=n, d=d, dtype="float32")


def annotation(name, n_distinct, n=10):
    return Annotation(name=name, n=n, n_distinct=n_distinct, examples=[])


def proposed(*annotations, parts=(), columns=()):
    return propose(SimpleNamespace(parts=list(parts), numeric_columns=list(columns), annotations=list(annotations)))


def test_named_then_largest_array_or_all_columns_are_proposed():
    assert proposed(parts=[part("weights", d=100), part("Embeddings")]).vectors == "Embeddings"
    assert proposed(parts=[part("a"), part("b", d=5), part("c")]).vectors == "b"
    assert proposed(columns=["x", "y"]) == Selection(vectors=["x", "y"])
    columns = [f"{name}{i}" for name, n in (("t", 4), ("image", 8), ("u", 5)) for i in range(n)]
    assert proposed(columns=columns).vectors == [f"image{i}" for i in range(8)]


@pytest.mark.parametrize("names", ["e{}", "dim_{}", "{}", "x.{}", "embedding_{:04}"])
def test_numbered_columns_are_proposed_as_vector(names):
    family = [names.format(i) for i in range(3, 67)]
    selection = proposed(annotation("category", 3), columns=["price", *family, "year"])
    assert selection == Selection(vectors=family, labels="category")
    offer = SimpleNamespace(parts=[], numeric_columns=["price", *family, "year"], annotations=[])
    assert excluded_columns(offer, selection) == ["price", "year"]
    assert excluded_columns(offer, Selection(vectors=family, labels="year")) == ["price"]


@pytest.mark.parametrize(
    "columns", [["x1", "x2", "price"], ["a1", "b2", "c3"], ["x1", "x3", "x9", "y"], ["x", "y", "z"]]
)
def test_few_columns_or_gaps_are_no_numbered_vector(columns):
    assert proposed(columns=columns).vectors == columns


def test_names_are_unique_and_labels_repeat():
    selection = proposed(annotation("word", 10), annotation("part of speech", 3), parts=[part("x")])
    assert (selection.names, selection.labels) == ("word", "part of speech")
    assert proposed(annotation("id", 10), annotation("title", 10), parts=[part("x")]).names == "title"
    assert proposed(annotation("id", 10), parts=[part("x")]).names == "id"
    selection = proposed(annotation("color", 2), annotation("Label", 9), parts=[part("x")])
    assert selection.labels == "Label"
    selection = proposed(annotation("label", 1001, n=5000), parts=[part("x", n=5000)])
    assert (selection.names, selection.labels) == ("label", None)
    selection = proposed(annotation("word", 7, n=7), annotation("label", 2, n=7), parts=[part("x")])
    assert (selection.names, selection.labels) == (None, None)


def find_possible_labels(integer_names, columns):
    integer_columns = [annotation(name, 3) for name in integer_names]
    offer = SimpleNamespace(parts=[], numeric_columns=columns, annotations=integer_columns)
    return [column.name for column in possible_labels(offer, Selection(vectors=columns))]


def test_integer_columns_among_fractions_may_be_labels():
    assert find_possible_labels(["gold"], ["a", "b", "c", "gold"]) == ["gold"]
    assert find_possible_labels(["gold", "id"], ["a", "b", "c", "gold", "id"]) == ["gold", "id"]
    assert find_possible_labels(["a", "b"], ["a", "b"]) == []
    assert find_possible_labels(list("abcd"), list("abcdefgh")) == []
