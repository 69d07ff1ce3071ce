"""The neighbors of the row that a URL names."""

from app.embeddings.lookups import NamedNeighbor, read_neighbors


def of(name, before, after):
    return {
        "name": name,
        "before": [{"name": one, "cosine": 0.5} for one in before],
        "after": [{"name": one, "cosine": 0.25} for one in after],
    }


DATA = {
    "k": 2,
    "rows": 8000,
    "method": "all_but_the_top",
    "parameters": {"D": 3, "seed": None},
    "of": [of("king", ["queen", "prince"], ["queen", "lord"]), of("run", ["ran"], ["jog", "ran"])],
}


def test_without_a_name_the_first_row_is_shown():
    found = read_neighbors(DATA, None)
    assert (found.chosen, found.unknown, found.names, found.rows) == ("king", "", ["king", "run"], 8000)
    assert found.before == [NamedNeighbor("queen", 0.5), NamedNeighbor("prince", 0.5)]
    assert (found.kept_count, found.names_before) == (1, {"queen", "prince"})


def test_a_name_chooses_its_row_and_another_is_said_to_be_unknown():
    assert (read_neighbors(DATA, "run").chosen, read_neighbors(DATA, "run").unknown) == ("run", "")
    assert (read_neighbors(DATA, "walk").chosen, read_neighbors(DATA, "walk").unknown) == ("king", "walk")


def test_lists_of_unlike_lengths_stand_side_by_side():
    assert read_neighbors(DATA, "run").pairs == [
        (NamedNeighbor("ran", 0.5), NamedNeighbor("jog", 0.25)),
        (None, NamedNeighbor("ran", 0.25)),
    ]


def test_of_two_rows_of_one_name_the_first_is_shown_and_the_name_offered_once():
    found = read_neighbors(DATA | {"of": [of("a", ["b"], []), of("a", ["c"], [])]}, "a")
    assert (found.names, found.before) == (["a"], [NamedNeighbor("b", 0.5)])


def test_the_method_is_named_with_the_parameters_that_were_given():
    assert read_neighbors(DATA, None).method == "All-but-the-Top, D 3"
    assert read_neighbors(DATA | {"method": "former", "parameters": {}}, None).method == "former"


def test_where_nothing_is_stored_there_is_nothing_to_show():
    assert read_neighbors(None, None) is None
    assert read_neighbors(DATA | {"of": []}, "king") is None


def test_another_similarity_is_told_with_its_values():
    one = {"name": "king", "before": [{"name": "queen", "dot": 7.0}], "after": [{"name": "lord", "dot": 2.0}]}
    found = read_neighbors(DATA | {"similarity": "dot", "of": [one]}, None)
    assert (found.similarity, found.before) == ("dot", [NamedNeighbor("queen", 7.0)])
    assert found.after == [NamedNeighbor("lord", 2.0)]
