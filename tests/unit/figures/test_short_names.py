"""Names of several embeddings in a legend."""

from app.figures.labels import short_names

LAYER = "sst2 · all-MiniLM-L6-v2 · layer {}, mean"


def test_names_that_are_short_enough_stay_whole():
    names = ["word2vec.npz, centered", "word2vec.npz, whitened"]
    assert short_names(names, 28) == names


def test_what_all_begin_with_is_left_out_where_there_is_no_room_for_it():
    assert short_names([LAYER.format(i) for i in (0, 3, 6)], 28) == ["layer 0, mean", "layer 3, mean", "layer 6, mean"]


def test_what_all_end_with_goes_only_if_that_is_not_enough():
    assert short_names([LAYER.format(i) for i in (0, 3)], 10) == ["layer 0", "layer 3"]
    names = ["a long name · first, pooled", "a longer name · second, pooled"]
    assert short_names(names, 24) == ["a long name · first", "a longer name · second"]


def test_of_a_name_that_begins_all_others_something_is_left():
    names = ["glove.npz", "glove.npz, Soft ZCA whitening, eps 0.1"]
    assert short_names(names, 28) == ["glove.npz", "glove.npz, Sof…ning, eps 0.1"]


def test_one_name_loses_its_middle():
    assert short_names([LAYER.format(3)], 28) == ["sst2 · all-Min…layer 3, mean"]


def test_names_that_are_alike_once_cut_are_numbered():
    names = [f"one and the same beginning {i} one and the same end" for i in (1, 2)]
    assert short_names(names, 20) == ["1. one and …same end", "2. one and …same end"]
