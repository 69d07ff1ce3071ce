import pytest

from app.db.models import EmbeddingFile
from app.embeddings.comparison import Pairing, find_pairing
from tests.factories import embedding

DEALT = {"by": "rows", "groups": 400, "blocks": "b"}


def cloud(id="1", **columns):  # noqa: A002 - the name of the column
    return embedding(id=id, **({"independent": DEALT} | columns))


def names(in_order, in_any_order="s"):
    return {"independent": DEALT | {"names": in_order, "names_in_any_order": in_any_order}}


def files(content):
    return [EmbeddingFile(position=0, filename="a.npy", file_sha256=content)]


@pytest.mark.parametrize(
    ("columns", "other_columns", "expected"),
    [
        ({}, {}, Pairing.INDEPENDENT),
        ({"source_id": "1"}, {}, Pairing.PAIRED),
        ({"source_id": "9"}, {"source_id": "9"}, Pairing.PAIRED),
        ({"encoding_id": "e"}, {"encoding_id": "e"}, Pairing.PAIRED),
        (names("x"), names("x"), Pairing.PAIRED),
        (names("x"), names("y"), Pairing.OTHER_ORDER),
        (names("x", "s"), names("y", "t"), Pairing.INDEPENDENT),
        (names("x") | {"n": 500}, names("x"), Pairing.INDEPENDENT),
        ({"source_id": "1", "n_left_out": 3}, {}, Pairing.OTHER_BLOCKS),
        ({"source_id": "1", "independent": DEALT | {"blocks": "c"}}, {}, Pairing.OTHER_BLOCKS),
        ({"source_id": "1", "independent": None}, {}, Pairing.UNKNOWN_BLOCKS),
    ],
)
def test_rows_are_the_same_by_origin_or_name(columns, other_columns, expected):
    first, second = cloud("2", **columns), cloud("1", **other_columns)
    assert find_pairing(first, second, [second, first]) is expected


def test_rows_of_same_files_are_paired_unless_transposed():
    first, second = cloud("1", files=files("a")), cloud("2", files=files("a"))
    assert find_pairing(first, second, []) is Pairing.PAIRED
    second.selection = {"vectors": "", "transpose": True}
    assert find_pairing(first, second, []) is Pairing.INDEPENDENT
    assert find_pairing(first, cloud("3", files=files("b")), []) is Pairing.INDEPENDENT
