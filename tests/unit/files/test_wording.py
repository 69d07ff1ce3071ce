from isoscope.core.formatting import listed, shown, storable


def test_long_names_are_cut():
    assert shown("x" * 80) == repr("x" * 80)
    assert shown("x" * 81) == repr("x" * 80) + "..."


def test_long_lists_are_counted():
    assert listed(["a", "b"]) == "'a', 'b'"
    assert listed([str(i) for i in range(1012)]).endswith("'9' and 1,002 more")


def test_text_is_made_fit_for_utf8_and_postgresql():
    assert storable("é\ud800\0") == "é?\ufffd"
