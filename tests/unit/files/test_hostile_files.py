"""Files made to mislead, exhaust or break their reader: each is refused with a sentence and no other error."""

import gzip
import io
import json
import pickle
import random
import struct
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import save

from isoscope.core.errors import IsoscopeError
from isoscope.files.columns import DatasetDescription, describe_dataset
from isoscope.files.matrix import Inspection, inspect
from isoscope.files.upload import NamedFile, Upload
from tests.uploads.good import Explosive, X, npy, npz
from tests.uploads.mutation import mutate

MUTATIONS = 150


def npy_header(text, data=b""):
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode() + data


def bomb():
    """Return an archive of a few hundred bytes that declares 2 GiB."""
    content = bytearray(npz(x=npy(X)))
    struct.pack_into("<L", content, content.index(b"PK\x01\x02") + 24, 2**31)
    return bytes(content)


def tensors(header, data=b"", length=None):
    text = json.dumps(header).encode()
    return (len(text) if length is None else length).to_bytes(8, "little") + text + data


def tensor(shape, begin, end, dtype="F32"):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def parquet(**columns):
    buffer = io.BytesIO()
    pq.write_table(pa.table(columns), buffer)
    return buffer.getvalue()


def shape(text):
    return f"{{'descr': '<f4', 'fortran_order': False, 'shape': {text}}}"


OBJECTS = npy(np.array([[Explosive()]], dtype=object), allow_pickle=True)
OVERLAPPING = tensors({"a": tensor([2, 2], 0, 16), "b": tensor([2, 2], 8, 24)}, bytes(24))

HOSTILE_EMBEDDINGS = {
    "empty": ("x.npy", b"", "The file is empty: 0 bytes"),
    "empty csv": ("x.csv", b"\n\n \n"[:2], "The file holds blank lines only"),
    "objects": ("x.npy", OBJECTS, r"holds Python objects \(dtype object\).*never loaded here: save numbers"),
    "objects in an archive": ("x.npz", npz(good=npy(X), bad=OBJECTS), "The array 'bad' holds Python objects"),
    "records": ("x.npy", npy(np.zeros(3, "f4,f4")), "holds records, .*: save one array for each field"),
    "text array": ("x.npy", npy(np.array([["a", "b"]])), "not a type of real numbers"),
    "complex": ("x.npy", npy(X + 1j), "not a type of real numbers"),
    "one dimension": ("x.npy", npy(X[0]), r"x\.reshape\(-1, d\)"),
    "four dimensions": ("x.npy", npy(X.reshape(3, 2, 2, 4)), r"at most three dimensions .*x\.mean\(axis=2\)"),
    "no layers": ("x.npy", npy(np.zeros((0, 4, 4))), "has no rows or no columns"),
    "layers of no rows": ("x.npy", npy(np.zeros((3, 0, 4))), "has no rows or no columns"),
    "rows for layers": ("x.npy", npy(np.zeros((201, 2, 2))), r"first are layers, at most 200.*x\.mean\(axis=1\)"),
    "layers in Fortran order": ("x.npy", npy(np.asfortranarray(X.reshape(3, 4, 4))), "ascontiguousarray"),
    "layers beyond the file": ("x.npy", npy_header(shape("(200, 1000000, 1000)"), b"1234"), "cut off or altered"),
    "no rows": ("x.npy", npy(X[:0]), "has no rows or no columns"),
    "ten gigabytes declared": ("x.npy", npy_header(shape("(2500000, 1000)"), b"1234"), "declares 10,000,000,000 bytes"),
    "more than the universe": ("x.npy", npy_header(shape(f"({2**62}, {2**62})")), "cut off or altered"),
    "negative shape": ("x.npy", npy_header(shape("(-1, -4)"), bytes(16)), "its shape is not a tuple"),
    "a call in the header": ("x.npy", npy_header(shape("(exit(), 1)")), "it is not one that NumPy writes"),
    "a bomb of brackets": ("x.npy", npy_header("(" * 9000), "it is not one that NumPy writes"),
    "a longer header than the file": ("x.npy", b"\x93NUMPY\x02\x00\xff\xff\xff\xff", "it is not one that NumPy writes"),
    "cut off": ("x.npy", npy(X)[:-7], "cut off or altered"),
    "only magic": ("x.npy", b"\x93NUMPY", "it is not one that NumPy writes"),
    "wrong magic": ("x.npy", b"\x94NUMPY" + npy(X)[6:], "first bytes are not those of a npy file"),
    "csv named npy": ("x.npy", b"1,2\n3,4\n", "first bytes are not those of a npy file"),
    "html named csv": ("x.csv", b"<!doctype html><p>Not found</p>\n", "The file has a header but no rows"),
    "torch archive": ("x.pt", npz()[:4] + bytes(26) + b"x/data.pkl", r"torch\.load\(\"file\.pt\", weights_only=True, "),
    "torch pickle": ("x.pt", pickle.dumps(Explosive()), "import torch, safetensors.torch"),
    "pickle named npy": ("x.npy", pickle.dumps(Explosive()), "Python pickle"),
    "pickle member": ("x.npz", npz(x=pickle.dumps(Explosive())), "it is not one that NumPy writes"),
    "zip bomb": ("x.npz", bomb(), r"declares [\d,]+ bytes in [\d,]+, more than 200 to 1, which could exha"),
    "a path for a member": ("x.npz", npz(**{"../x": npy(X)}), "named as a path out of a folder"),
    "nested archive": ("x.npz", npz(**{"x.npz": npz(x=npy(X))}), "it is not one that NumPy writes"),
    "half an archive": ("x.npz", npz(x=npy(X))[:90], "The npz archive cannot be read"),
    "many members": ("x.npz", npz(**{f"m{i}": b"" for i in range(1001)}), "has 1,001 members, more than 1,000: save"),
    "header of 2^63 bytes": ("x.safetensors", tensors({}, length=2**63), "not those of a safetensors file"),
    "header of 2^31 bytes": ("x.safetensors", tensors({}, length=2**31), "declares a header of 2,147,483,648 bytes"),
    "overlapping tensors": ("x.safetensors", OVERLAPPING, "overlap others or leave a gap"),
    "tensor beyond the end": ("x.safetensors", tensors({"a": tensor([2, 2], 0, 16)}, bytes(9)), "but the file has"),
    "deep header": ("x.safetensors", b"\x00\x80\x00\x00\x00\x00\x00\x00" + b'{"a":' * 6554, "not the JSON"),
    "a header of no dimensions": ("x.vec", b"1 -2\nw 1 2\n", "declares '1 -2', expected a number of words"),
    "ragged": ("x.csv", b"1,2\n3,4\n5\n", "Line 3 has another number of columns"),
    "text where a number belongs": ("x.csv", b"1,2\n3,abc\n5,6\n7,8\n", r"Line 2, column 2 \('column 2'\) holds 'abc'"),
    "no numbers": ("x.tsv", b"a\tb\nc\td\n", "No column holds numbers"),
    "another separator": ("x.csv", b"a;b\n1;2\n3;4\n", "separated by ';'"),
    "latin-1": ("x.csv", "wort,x\nschön,1\n".encode("latin-1"), "Expected text in UTF-8, found the byte 0xf6"),
    "utf-16": ("x.csv", "a,b\n1,2\n".encode("utf-16"), "text in UTF-16"),
    "NUL bytes": ("x.csv", b"1,2\n3,\x00\n", "Line 2 holds a NUL byte"),
    "an open quote": ("x.csv", b'a,b\n"1,2\n' + b"3,4\n" * 50_000, "Line 2 is not csv"),
    "two columns of one name": ("x.csv", b"a,a\n1,2\n", "names 2 columns 'a'"),
    "a path for a name": ("../../../etc/passwd", b"1,2\n", "whose name ends in ''"),
    "hdf5 magic only": ("x.h5", b"\x89HDF\r\n\x1a\n", "The HDF5 file cannot be read"),
    "parquet magic only": ("x.parquet", b"PAR1PAR1", "The parquet file cannot be read"),
    "parquet cut off": ("x.parquet", parquet(x=[[0.5, 1.5]] * 9)[:-20], "The parquet file cannot be read"),
    "ragged parquet": ("x.parquet", parquet(x=[[0.5, 1.5], [2.5]]), "Row 2 of the column 'x'"),
    "deep jsonl": ("x.jsonl", b'{"a":' * 50_000 + b"\n", "nested too deeply"),
    "a key twice": ("x.jsonl", b'{"a": [1], "a": [2]}\n', "the key 'a' occurs twice"),
    "ragged jsonl": ("x.jsonl", b'{"a": [1, 2]}\n{"a": [1]}\n', "Line 2 holds 1 value under 'a'"),
    "a number of 401 digits": ("x.jsonl", b'{"a": [1' + b"0" * 400 + b"]}\n", "too large for 64 bits"),
    "words cut off": ("x.vec", b"3 2\nking 1 2\n", "declares 3 words, and 1 lines follow"),
    "words without numbers": ("x.txt", b"a text of words\n", "has 'text' where a number belongs"),
    "binary words cut off": ("x.bin", b"3 2\nking \x00\x00\x80\xbf", "which 13 bytes cannot hold"),
    "xlsx": ("x.xlsx", npz()[:0] + b"PK\x03\x04" + bytes(22) + b"\x13\0\0\0[Content_Types].xml", "Office document"),
    "gzip": ("x.csv.gz", b"\x1f\x8b\x08", "compressed with gzip"),
    "program": ("x.csv", b"\x7fELF\x02", "is a program"),
}


@pytest.mark.parametrize("case", HOSTILE_EMBEDDINGS)
def test_hostile_upload_is_refused(tmp_path, case):
    filename, content, sentence = HOSTILE_EMBEDDINGS[case]
    path = tmp_path / "content"
    path.write_bytes(content)
    with pytest.raises(IsoscopeError, match=sentence):
        inspect(Upload((NamedFile(path, filename),)))


GOOD_ROWS = "train.tsv", b"sentence\tlabel\na\t1\nb\t0\n"


def answers(texts, starts):
    return json.dumps({"label": {"text": texts, "answer_start": starts}}).encode() + b"\n"


MILLION = {"text": ["x"] * 10**6, "answer_start": [0] * 10**6}
GZIP_BOMB = gzip.compress(b"sentence\tlabel\n" + (b"a" * 10**7 + b"\t1\n") * 7)
HOSTILE_ROWS = {
    "empty": ("x.tsv", b"", "The file is empty"),
    "header only": ("x.tsv", b"sentence\tlabel\n", "has no rows"),
    "ragged": ("x.tsv", b"sentence\tlabel\na\n", "another number of columns"),
    "latin-1": ("x.tsv", "sentence\tlabel\né\t1\n".encode("latin-1"), "Expected text in UTF-8"),
    "NUL bytes": ("x.tsv", b"sentence\tlabel\n\x00\t1\n", "NUL byte"),
    "no common column": ("x.tsv", b"text\tclass\na\t1\n", "no column in common"),
    "deep jsonl": ("x.jsonl", b'{"a":' * 50_000 + b"\n", "nested too deeply"),
    "deep answers": ("x.jsonl", b'{"a": {"text": ' + b"[" * 50_000 + b"\n", "nested too deeply"),
    "answers of a wrong type": ("x.jsonl", answers([1], [0]), "Line 1 holds no answers under 'label': expected texts"),
    "answers that are not lists": ("x.jsonl", answers("x", 0), "expected a list of texts and a list of as many"),
    "fewer positions than answers": ("x.jsonl", answers(["x", "y"], [0]), "expected a list of texts and a list of as"),
    "an answer before the beginning": ("x.jsonl", answers(["x"], [-(10**300)]), "expected positions counted from 0"),
    "a million answers": ("x.jsonl", answers(["x"] * 10**6, [0] * 10**6), "at most 1,000 answers, got 1,000,000"),
    "a million answers in parquet": ("x.parquet", parquet(label=[MILLION]), "at most 1,000 answers, got 1,000,000"),
    "half a gzip file": ("x.tsv.gz", gzip.compress(GOOD_ROWS[1])[:-9], "The gzip file ends early or is damaged"),
    "gzip magic only": ("x.tsv.gz", b"\x1f\x8b", "The gzip file ends early or is damaged"),
    "gzip of noise": ("x.tsv.gz", b"\x1f\x8b\x08\0" + bytes(range(200)), "The gzip file ends early or is damaged"),
    "gzip of nothing": ("x.tsv.gz", gzip.compress(b""), "The file is empty"),
    "gzip of gzip": ("x.tsv.gz", gzip.compress(gzip.compress(GOOD_ROWS[1])), "compressed with gzip, which is not read"),
    "gzip of a pickle": ("x.tsv.gz", gzip.compress(pickle.dumps(Explosive())), "Python pickle"),
    "gzip of parquet": ("x.parquet.gz", gzip.compress(parquet(label=[1])), "parquet compressed with gzip, which only"),
    "a bomb of gzip": ("x.tsv.gz", GZIP_BOMB, "unpacks to more than 67,108,864, which could exhaust memory"),
    "text named gz": ("x.tsv.gz", GOOD_ROWS[1], "whose name ends in '.gz'"),
    "jsonl of lists": ("x.jsonl", b"[1]\n", "holds list where an object belongs"),
    "a json document": ("x.json", b'[{"a": 1}]', "one object a line"),
    "huge number": ("x.jsonl", b'{"a": ' + b"9" * 10_000 + b"}\n", "is not JSON"),
    "not parquet": ("x.parquet", b"sentence,label\n", "first bytes are not those of a parquet file"),
    "parquet magic only": ("x.parquet", b"PAR1PAR1", "The parquet file cannot be read"),
    "parquet footer of 4 GB": ("x.parquet", b"PAR1" + b"\xff\xff\xff\xffPAR1", "The parquet file cannot be read"),
    "parquet cut off": ("x.parquet", parquet(sentence=["a"], label=[1])[:-20], "The parquet file cannot be read"),
    "pickle": ("x.pkl", pickle.dumps(Explosive()), "Python pickle"),
    "xlsx": ("x.xlsx", b"PK\x03\x04" + bytes(22) + b"\x13\0\0\0[Content_Types].xml", "Office document"),
}


@pytest.mark.parametrize("case", HOSTILE_ROWS)
def test_hostile_validation_file_is_refused(tmp_path, case):
    filename, content, sentence = HOSTILE_ROWS[case]
    train, validation = tmp_path / "train", tmp_path / "validation"
    train.write_bytes(GOOD_ROWS[1])
    validation.write_bytes(content)
    with pytest.raises(IsoscopeError, match=sentence) as raised:
        describe_dataset(train, GOOD_ROWS[0], validation, filename)
    assert raised.value.field == "validation"


GOOD_EMBEDDINGS = {
    "x.npy": npy(X),
    "f.npy": npy(np.asfortranarray(X)),
    "x.npz": npz(vectors=npy(X), words=npy(np.array(list("abcdefghijkl"))), label=npy(np.arange(12) % 3)),
    "s.npz": npz(zipfile.ZIP_STORED, vectors=npy(X), words=npy(np.array(list("abcdefghijkl")))),
    "x.safetensors": save({"x": X, "label": np.arange(12)}),
    "x.csv": ("word,x,y\n" + "".join(f'"w{i}, ""q""",{i}.5,{i}e-1\n' for i in range(12))).encode(),
    "x.tsv": "".join(f"w{i}\t{i}.5\t{i}\n" for i in range(12)).encode(),
    "x.parquet": parquet(x=X.tolist(), word=[f"w{i}" for i in range(12)]),
    "wide.parquet": parquet(a=X[:, 0], b=X[:, 1], label=[1, 0] * 6),
    "x.jsonl": "".join(f'{{"word": "w{i}", "x": [{i}.5, {i}e-1]}}\n' for i in range(12)).encode(),
    "x.vec": ("12 2\n" + "".join(f"w{i} {i}.5 {i}e-1\n" for i in range(12))).encode(),
    "x.bin": b"12 4\n" + b"".join(f"w{i} ".encode() + row.tobytes() for i, row in enumerate(X)),
}

GOOD_TABLES = {
    "x.tsv.gz": gzip.compress(GOOD_ROWS[1] * 9, mtime=0),
    "answers.jsonl": answers(["b", "c"], [2, 30]) * 9,
    "answers.parquet": parquet(label=[{"text": ["b", "c"], "answer_start": [2, 30]}] * 50),
    "x.tsv": GOOD_ROWS[1],
    "x.csv": b'sentence,label\n"a, b",1\nc,0\n',
    "x.jsonl": b'{"sentence": "a", "label": 1}\n{"sentence": "b", "label": 0}\n',
    "x.parquet": parquet(sentence=["a", "b"] * 50, label=[1, 0] * 50),
}


def read_or_refused(read, *args):
    """Return what was read, or None if it was refused; any other error fails the test."""
    try:
        return read(*args)
    except IsoscopeError:
        return None


@pytest.mark.parametrize("filename", GOOD_EMBEDDINGS)
def test_mutated_upload_is_read_or_refused(tmp_path, filename):
    path = tmp_path / "content"
    chance = random.Random(filename)
    path.write_bytes(GOOD_EMBEDDINGS[filename])
    assert inspect(Upload((NamedFile(path, filename),))).n == 12
    for _ in range(MUTATIONS):
        path.write_bytes(mutate(GOOD_EMBEDDINGS[filename], chance))
        if inspection := read_or_refused(inspect, Upload((NamedFile(path, filename),))):
            assert Inspection.model_validate_json(inspection.model_dump_json()) == inspection


@pytest.mark.parametrize("filename", GOOD_TABLES)
def test_mutated_validation_file_is_read_or_refused(tmp_path, filename):
    train, validation = tmp_path / "train", tmp_path / "validation"
    train.write_bytes(GOOD_ROWS[1])
    chance = random.Random(filename)
    for _ in range(MUTATIONS):
        validation.write_bytes(mutate(GOOD_TABLES[filename], chance))
        if description := read_or_refused(describe_dataset, train, GOOD_ROWS[0], validation, filename):
            assert DatasetDescription.model_validate_json(description.model_dump_json()) == description
