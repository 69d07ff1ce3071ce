from app.embeddings.lookups import NamedNeighbor, read_neighbors


def lists_of(name, before, after):
    return {
        "name": name,
        "before": [{"name": neighbor, "cosine": 0.5} for neighbor in before],
        "after": [{"name": neighbor, "cosine": 0.25} for neighbor in after],
    }


DATA = {
    "k": 2, "rows": 8000, "method": "all_but_the_top", "parameters": {"D": 3, "seed": None},
    "of": [lists_of("king", ["queen", "prince"], ["queen", "lord"]), lists_of("run", ["ran"], ["jog", "ran"])],
}  # fmt: skip


def test_unknown_name_selects_first_row():
    neighbors = read_neighbors(DATA, None)
    assert (neighbors.chosen, neighbors.unknown, neighbors.names, neighbors.rows) == ("king", "", ["king", "run"], 8000)
    assert neighbors.before == [NamedNeighbor("queen", 0.5), NamedNeighbor("prince", 0.5)]
    assert (neighbors.kept_count, neighbors.names_before) == (1, {"queen", "prince"})
    assert (read_neighbors(DATA, "run").chosen, read_neighbors(DATA, "run").unknown) == ("run", "")
    assert (read_neighbors(DATA, "walk").chosen, read_neighbors(DATA, "walk").unknown) == ("king", "walk")


def test_lists_of_different_lengths_are_paired():
    assert read_neighbors(DATA, "run").pairs == [
        (NamedNeighbor("ran", 0.5), NamedNeighbor("jog", 0.25)),
        (None, NamedNeighbor("ran", 0.25)),
    ]
    neighbors = read_neighbors(DATA | {"of": [lists_of("a", ["b"], []), lists_of("a", ["c"], [])]}, "a")
    assert (neighbors.names, neighbors.before) == (["a"], [NamedNeighbor("b", 0.5)])


def test_method_and_similarity_are_named():
    assert read_neighbors(DATA, None).method == "All-but-the-Top, D 3"
    assert read_neighbors(DATA | {"method": "former", "parameters": {}}, None).method == "former"
    assert read_neighbors(None, None) is None
    assert read_neighbors(DATA | {"of": []}, "king") is None
    lookup = {"name": "king", "before": [{"name": "queen", "dot": 7.0}], "after": [{"name": "lord", "dot": 2.0}]}
    neighbors = read_neighbors(DATA | {"similarity": "dot", "of": [lookup]}, None)
    assert (neighbors.similarity, neighbors.before) == ("dot", [NamedNeighbor("queen", 7.0)])
    assert neighbors.after == [NamedNeighbor("lord", 2.0)]
