import json
import zipfile
import zlib
from pathlib import Path

import pytest

from isoscope.core.beir_layout import is_beir, list_beir_files
from isoscope.core.errors import InvalidError, TooLargeError
from isoscope.files.beir import choose_split, describe_beir, find_beir, open_beir, read_beir_ids, unpack
from isoscope.files.ground_truth import Judgment, read_qrels
from isoscope.files.upload import NamedFile

CORPUS = [
    {"_id": "d1", "title": "Cells", "text": "They divide.", "metadata": {"year": 1}},
    {"_id": "d2", "title": "", "text": "No title.", "metadata": {}},
    {"_id": 3, "title": "Only a title", "text": ""},
]
QUERIES = [{"_id": "q1", "text": "what divides", "metadata": {}}]
HEAD = "query-id\tcorpus-id\tscore\n"
FILES = {
    "corpus.jsonl": "\n".join(map(json.dumps, CORPUS)),
    "queries.jsonl": "\n".join(map(json.dumps, QUERIES)),
    "qrels/dev.tsv": f"{HEAD}q1\td2\t1\n",
    "qrels/test.tsv": f"{HEAD}q1\td1\t2\nq1\t3\t0\n",
}


def zipped(path: Path, files=None, top="scifact/", **options) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, **options) as archive:
        for name, text in (FILES if files is None else files).items():
            archive.writestr(top + name, text)
    return path


def described(path: Path, folder: Path):
    folder.mkdir()
    return describe_beir([NamedFile(path, path.name)], folder)


def test_zip_file_is_read_from_any_top_folder(tmp_path):
    extra = {"__MACOSX/scifact/corpus.jsonl": "x", "scifact/.qrels/a.tsv": "x", "scifact/readme.md": "x"}
    path = zipped(tmp_path / "scifact.zip", extra, top="")
    with zipfile.ZipFile(path, "a") as archive:
        for name, text in FILES.items():
            archive.writestr(f"scifact/{name}", text)
    description = described(path, tmp_path / "made")
    assert [(split.name, split.judgments) for split in description.splits] == [("test", 2), ("dev", 1)], "test first"
    assert (description.corpus.n, description.queries.n) == (3, 1)
    lines = (tmp_path / "made" / "corpus.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [
        {"_id": "d1", "text": "Cells They divide."},
        {"_id": "d2", "text": "No title."},
        {"_id": "3", "text": "Only a title"},
    ]
    qrels_path = tmp_path / "made" / description.splits[0].filename
    assert read_qrels(qrels_path, qrels_path.name) == [Judgment("q1", "d1", 2), Judgment("q1", "3", 0)]


def test_folder_and_zip_file_read_alike(tmp_path):
    folder = tmp_path / "scifact"
    (folder / "qrels").mkdir(parents=True)
    for name, text in FILES.items():
        (folder / name).write_text(text)
    assert [path.name for path in list_beir_files(folder)] == ["corpus.jsonl", "queries.jsonl", "dev.tsv", "test.tsv"]
    for path in (folder, zipped(tmp_path / "scifact.zip")):
        with open_beir(path) as files:
            assert read_beir_ids(files.corpus) == ["d1", "d2", "3"]
            assert list(files.qrels) == ["test", "dev"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidError, match="is no BEIR data set"):
        list_beir_files(tmp_path / "empty")


def test_zip_or_several_files_are_beir():
    assert is_beir(["a.ZIP"])
    assert is_beir(["corpus.jsonl", "queries.jsonl"])
    assert not is_beir(["corpus.jsonl"])
    names = ["corpus.jsonl", "queries.jsonl", *(f"{number}.tsv" for number in range(21))]
    with pytest.raises(TooLargeError, match="21 files of qrels"):
        find_beir(NamedFile(Path(name), name) for name in names)
    assert choose_split(["dev", "test"], None) == "test"
    assert choose_split(["dev", "train"], None) == "dev"
    with pytest.raises(InvalidError, match=r"no qrels of the split 'text'\. Splits are: 'dev', 'test'"):
        choose_split(["dev", "test"], "text")


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        (["corpus.jsonl", "test.tsv"], "no queries.jsonl"),
        (["corpus.jsonl", "queries.jsonl"], "no qrels/test.tsv"),
        (["corpus.jsonl", "queries.jsonl", "test.tsv", "readme.md"], "readme.md' has no place here"),
        (["corpus.jsonl", "queries.jsonl", "a/test.tsv", "b/test.tsv"], "test.tsv' is there twice"),
        (["corpus.jsonl", "queries.jsonl", "qrels/.tsv"], "names no split"),
    ],
)
def test_incomplete_or_unknown_files_are_refused(names, sentence):
    with pytest.raises(InvalidError, match=sentence) as refused:
        find_beir(NamedFile(Path(name), name) for name in names)
    assert refused.value.field == "file"


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"corpus.jsonl": json.dumps({"title": "a", "text": "b"})}, "corpus.jsonl: no key '_id'"),
        ({"corpus.jsonl": json.dumps({"_id": "a", "title": "b"})}, "no key 'text'"),
        ({"corpus.jsonl": FILES["corpus.jsonl"] + '\n{"_id": "", "text": "b"}'}, "row 4 has no '_id'"),
        ({"qrels/test.tsv": HEAD}, "test.tsv judges nothing"),
        ({"qrels/test.tsv": f"{HEAD}q1\td1\tx\n"}, "has the relevance 'x'|has the score 'x'"),
        ({"queries.jsonl": "not json"}, "queries.jsonl"),
    ],
)
def test_invalid_contents_are_refused_by_file(tmp_path, change, sentence):
    path = zipped(tmp_path / "a.zip", FILES | change)
    with pytest.raises(InvalidError, match=sentence):
        described(path, tmp_path / "made")


def test_zip_member_names_cannot_leave_folder(tmp_path):
    path = zipped(tmp_path / "a.zip", {f"../../../{name}": text for name, text in FILES.items()}, top="")
    inner = tmp_path / "deep" / "inner"
    inner.mkdir(parents=True)
    assert all(file.path.parent == inner for file in unpack(path, inner))
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["a.zip", "deep"]


@pytest.mark.slow
def test_zip_bomb_is_refused_before_unpacking(tmp_path):
    path = zipped(tmp_path / "a.zip", FILES | {"corpus.jsonl": " " * 80_000_000})
    (tmp_path / "made").mkdir()
    with pytest.raises(TooLargeError, match="could exhaust memory"):
        unpack(path, tmp_path / "made")
    assert not list((tmp_path / "made").iterdir())
    path = zipped(tmp_path / "a.zip", {str(number): "" for number in range(10_001)})
    with pytest.raises(TooLargeError, match="10,001 members"):
        unpack(path, tmp_path)


def test_unreadable_zip_file_states_reason(tmp_path):
    path = tmp_path / "a.zip"
    content = zipped(path).read_bytes()
    start = content.index(zlib.compress(FILES["corpus.jsonl"].encode(), wbits=-15)[:10])
    encrypted = bytearray(content)
    for offset in (index for index in range(len(content)) if content[index : index + 4] == b"PK\x01\x02"):
        encrypted[offset + 8] |= 1
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
        for name, text in FILES.items():
            archive.writestr(name, text)
    for hostile, sentence in (
        (b"\x1f\x8b not a zip", "not a zip file"),
        (content[:-30], "cannot be read"),
        (content[:start] + bytes(20) + content[start + 20 :], "cannot be read"),
        (encrypted, "encrypted"),
        (path.read_bytes(), "compressed by a method"),
    ):
        path.write_bytes(hostile)
        with pytest.raises(InvalidError, match=sentence):
            unpack(path, tmp_path)
