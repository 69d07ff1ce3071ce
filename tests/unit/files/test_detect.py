import gzip
import io
import pickle
import subprocess
import sys
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.numpy import load_file, save_file

from isoscope.core.errors import InvalidError, TooLargeError, UnsupportedFormatError
from isoscope.files import compressed
from isoscope.files.compressed import is_gzipped, open_unpacked
from isoscope.files.upload_formats import CONVERSION, Role, detect


def detected(tmp_path, filename, content, **kwargs):
    path = tmp_path / "content"  # as in the storage, where files have no suffix
    path.write_bytes(content)
    return detect(path, filename, **kwargs).name


def saved(save, *args, **kwargs):
    buffer = io.BytesIO()
    save(buffer, *args, **kwargs)
    return buffer.getvalue()


def zipped(**members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members.items():
            # The current date would change the ids of cases in each pytest worker.
            archive.writestr(zipfile.ZipInfo(name.replace("__", "/")), content)
    return buffer.getvalue()


def test_binary_formats_are_detected_by_first_bytes(tmp_path):
    save_file({"x": np.ones((2, 3))}, tmp_path / "x.safetensors")
    pq.write_table(pa.table({"a": [1]}), tmp_path / "x.parquet")
    for content, expected in [
        (saved(np.save, np.ones((2, 3))), "npy"),
        (saved(np.savez, np.ones((2, 3))), "npz"),
        (saved(np.savez_compressed, np.ones((2, 3))), "npz"),
        ((tmp_path / "x.safetensors").read_bytes(), "safetensors"),
        ((tmp_path / "x.parquet").read_bytes(), "parquet"),
        (b"\x89HDF\r\n\x1a\n123", "hdf5"),
        (b"3 2\nking " + np.array([0.5, -2.25], "<f4").tobytes(), "word2vec binary"),
    ]:
        assert detected(tmp_path, "anything.csv", content) == expected


@pytest.mark.parametrize(
    ("filename", "expected"),
    [("a.csv", "csv"), ("B.TSV", "tsv"), ("x.y.csv", "csv"), ("x.jsonl", "jsonl"), ("glove.6B.50d.txt", "word2vec"),
     ("wiki.vec", "word2vec")],
)  # fmt: skip
def test_text_formats_are_detected_by_name(tmp_path, filename, expected):
    assert detected(tmp_path, filename, b"1,2\n3,4\n") == expected
    assert detected(tmp_path, "labels.txt", b"1 2\n3 4\n", role=Role.ANNOTATIONS) == "txt"


def test_word2vec_text_is_distinguished_from_binary(tmp_path):
    assert detected(tmp_path, "x.vec", "1 2\nschön 0.5 1.5\n".encode()) == "word2vec"
    cut = "1 2\n" + "a" * 507 + "ö 0.5 1.5\n"  # the sniffed bytes end within the ö
    assert detected(tmp_path, "x.vec", cut.encode()) == "word2vec"


def test_unsupported_format_is_refused_with_expected_ones(tmp_path):
    with pytest.raises(UnsupportedFormatError, match=r"Expected \.npy, .* or \.txt, got a npz file: convert it"):
        detected(tmp_path, "labels.npz", saved(np.savez, np.ones(3)), role=Role.ANNOTATIONS)
    with pytest.raises(UnsupportedFormatError, match=r"Expected \.parquet, \.jsonl, \.csv or \.tsv, got a npy file"):
        detected(tmp_path, "x.npy", saved(np.save, np.ones((2, 3))), role=Role.ROWS)
    sentence = r"neither a word2vec binary file \(a line of two counts, then words\) nor safetensors\. If PyTorch wrote"
    with pytest.raises(UnsupportedFormatError, match=sentence):
        detected(tmp_path, "vectors.bin", b"\x00\x01\x02")
    with pytest.raises(UnsupportedFormatError, match="pickled PyTorch file"):
        detected(tmp_path, "embeddings", zipped(**{"archive__data.pkl": b"x"}))
    with pytest.raises(InvalidError, match="The file is empty: 0 bytes"):
        detected(tmp_path, "x.npy", b"")


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".safetensors", ".parquet"])
def test_file_that_contradicts_its_suffix_is_refused(tmp_path, suffix):
    with pytest.raises(InvalidError, match=rf"The file is named \{suffix}, but its first bytes are not those of a"):
        detected(tmp_path, "x" + suffix, b"hello, I am text\n")


@pytest.mark.parametrize("filename", ["model.pt", "model.pth", "pytorch_model.bin", "last.ckpt"])
@pytest.mark.parametrize("content", [zipped(archive__data_pkl=b"x"), pickle.dumps([1.0], protocol=2), b"(lp0\n."])
def test_pickled_torch_file_is_refused_with_conversion(tmp_path, filename, content):
    with pytest.raises(UnsupportedFormatError) as raised:
        detected(tmp_path, filename, content)
    assert "\n".join(str(raised.value).splitlines()[1:]) == CONVERSION


def _shared():
    tensor = torch.arange(6.0).reshape(3, 2)
    return {"embeddings": tensor, "first": tensor[:1], "turned": tensor.T, "epoch": 3}


# The first folder checks that the lines import all they need.
CONVERT_EACH = "import os, sys\nfor folder in sys.argv[2:]:\n    os.chdir(folder)\n    exec(sys.argv[1], {})"


@pytest.mark.slow
def test_conversion_handles_tensor_and_dict(tmp_path):
    folders = [tmp_path / "tensor", tmp_path / "dict"]
    for folder, content in zip(folders, (torch.arange(6.0, requires_grad=True).reshape(3, 2), _shared()), strict=True):
        folder.mkdir()
        torch.save(content, folder / "file.pt")
    subprocess.run([sys.executable, "-c", CONVERT_EACH, CONVERSION, *folders], check=True)
    from_tensor, from_dict = (load_file(folder / "file.safetensors") for folder in folders)
    assert from_tensor["embeddings"].tolist() == from_dict["embeddings"].tolist() == [[0, 1], [2, 3], [4, 5]]
    assert (sorted(from_tensor), sorted(from_dict)) == (["embeddings"], ["embeddings", "first", "turned"])


@pytest.mark.parametrize(
    ("filename", "content"), [("x.pkl", pickle.dumps([1])), ("x.npy", pickle.dumps([1])), ("x.joblib", b"cx\n.")]
)
def test_pickle_is_refused(tmp_path, filename, content):
    with pytest.raises(UnsupportedFormatError, match=r"Python pickle\..*numpy\.save"):
        detected(tmp_path, filename, content)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (gzip.compress(b"1,2", mtime=0), "is compressed with gzip, which is not read here: unpack it with gunzip"),
        (b"%PDF-1.7", "is a PDF"),
        (b"\x89PNG\r\n", "is a PNG image"),
        (b"\xff\xd8\xff\xe0", "is a JPEG image"),
        ("1,2\n".encode("utf-16"), "is text in UTF-16, which is not read here: save it as UTF-8"),
        (zipped(**{"[Content_Types].xml": b"", "xl__workbook.xml": b""}), "is an Office document"),
        (zipped(**{"table.csv": b"1,2"}), "is a zip archive, which is not read here: unpack it"),
    ],
)
def test_other_file_kinds_are_refused_by_name(tmp_path, content, sentence):
    with pytest.raises(UnsupportedFormatError, match=sentence):
        detected(tmp_path, "table.csv", content)


@pytest.mark.parametrize(
    ("filename", "sentence"),
    [
        ("x.json", r"got a \.json file: write one object a line and name it \.jsonl"),
        ("x.txt", r"got a \.txt file: name a table \.csv or \.tsv"),
        ("README", r"whose name ends in ''"),
        ("x.faiss", "A FAISS index is read only by the command isoscope upload, and alone"),
        ("x.exotic", r"whose name ends in '\.exotic'"),
    ],
)
def test_unknown_suffix_is_refused_with_expected_ones(tmp_path, filename, sentence):
    with pytest.raises(UnsupportedFormatError, match=sentence):
        detected(tmp_path, filename, b"text\n", role=Role.ROWS)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "content"


def read(path):
    with open_unpacked(path) as stream:
        return stream.read()


def test_gzip_members_are_read_as_one_stream(path):
    for content in (b"", b"a", "schön\n".encode() * 10_000):
        path.write_bytes(content)
        assert (read(path), is_gzipped(path)) == (content, False)
        path.write_bytes(gzip.compress(content))
        assert (read(path), is_gzipped(path)) == (content, True)
    path.write_bytes(gzip.compress(b"one\n") + gzip.compress(b"two\n"))
    assert read(path) == b"one\ntwo\n"


def damaged():
    content = bytearray(gzip.compress(b"some text " * 1000, mtime=0))
    content[20:30] = b"\xff" * 10
    return content


@pytest.mark.parametrize(
    "content", [*(gzip.compress(bytes(range(256)) * 40, mtime=0)[:end] for end in (2, 9, 15, -1, -8)), damaged()]
)
def test_truncated_or_damaged_gzip_is_refused(path, content):
    path.write_bytes(content)
    with pytest.raises(InvalidError, match="The gzip file ends early or is damaged: compress it again, or upload it"):
        read(path)


@pytest.mark.slow
def test_gzip_bomb_is_refused_and_text_within_limit_is_read(path, monkeypatch):
    path.write_bytes(gzip.compress(bytes(65 * 2**20)))
    with open_unpacked(path) as stream:
        assert sum(len(stream.read(2**20)) for _ in range(64)) == 64 * 2**20
        with pytest.raises(TooLargeError, match=r"unpacks to more than 67,108,864, which could"):
            stream.read(2**20)
    monkeypatch.setattr(compressed, "MAX_DECOMPRESSED_BYTES", 1000)
    path.write_bytes(gzip.compress(b"x" * 1000))
    assert len(read(path)) == 1000
    path.write_bytes(gzip.compress(b"x" * 1001))
    with pytest.raises(TooLargeError, match=r"of \d+ bytes unpacks to more than 1,000, which could exhaust mem"):
        read(path)
