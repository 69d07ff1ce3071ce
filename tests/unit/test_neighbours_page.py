"""The neighbors of the row that a URL names."""

from app.embeddings.lookups import Neighbour, read_neighbours


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
    found = read_neighbours(DATA, None)
    assert (found.chosen, found.unknown, found.names, found.rows) == ("king", "", ["king", "run"], 8000)
    assert found.before == [Neighbour("queen", 0.5), Neighbour("prince", 0.5)]
    assert (found.kept, found.new) == (1, {"lord"})


def test_a_name_chooses_its_row_and_another_is_said_to_be_unknown():
    assert (read_neighbours(DATA, "run").chosen, read_neighbours(DATA, "run").unknown) == ("run", "")
    assert (read_neighbours(DATA, "walk").chosen, read_neighbours(DATA, "walk").unknown) == ("king", "walk")


def test_lists_of_unlike_lengths_stand_side_by_side():
    assert read_neighbours(DATA, "run").pairs == [
        (Neighbour("ran", 0.5), Neighbour("jog", 0.25)),
        (None, Neighbour("ran", 0.25)),
    ]


def test_of_two_rows_of_one_name_the_first_is_shown_and_the_name_offered_once():
    found = read_neighbours(DATA | {"of": [of("a", ["b"], []), of("a", ["c"], [])]}, "a")
    assert (found.names, found.before) == (["a"], [Neighbour("b", 0.5)])


def test_the_method_is_named_with_the_parameters_that_were_given():
    assert read_neighbours(DATA, None).method == "All-but-the-Top, D 3"
    assert read_neighbours(DATA | {"method": "former", "parameters": {}}, None).method == "former"


def test_where_nothing_is_stored_there_is_nothing_to_show():
    assert read_neighbours(None, None) is None
    assert read_neighbours(DATA | {"of": []}, "king") is None


def test_another_similarity_is_told_with_its_values():
    one = {"name": "king", "before": [{"name": "queen", "dot": 7.0}], "after": [{"name": "lord", "dot": 2.0}]}
    found = read_neighbours(DATA | {"similarity": "dot", "of": [one]}, None)
    assert (found.similarity, found.before, found.after) == ("dot", [Neighbour("queen", 7.0)], [Neighbour("lord", 2.0)])
