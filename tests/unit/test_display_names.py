import pytest

from app.core.names import file_stem


@pytest.mark.parametrize(
    ("name", "stem"),
    [
        ("word2vec.npz, ZCA whitening", "word2vec-zca-whitening"),
        ("word2vec.npz, Soft ZCA whitening, eps 0.5", "word2vec-soft-zca-whitening-eps-0.5"),
        ("a.CSV, Centering", "a-centering"),
        ("whitened / twice", "whitened-twice"),
        ("../../.bashrc", "bashrc"),
        ("glove.6B.50d", "glove.6b.50d"),
        ("Wörter 2", "wörter-2"),
        ("…", "embedding"),
    ],
)
def test_display_name_becomes_file_stem(name, stem):
    assert file_stem(name) == stem
