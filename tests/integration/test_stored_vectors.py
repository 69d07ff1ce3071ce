import json
import sys

import faiss
import numpy as np
import psycopg
import pytest

from isoscope import stores
from tests.ports import free_port

PASSWORD = "s3cret"
IDS = np.arange(400) * 3 + 7


@pytest.fixture
def database_url(empty_postgresql_url):
    with psycopg.connect(empty_postgresql_url) as connection:
        if connection.execute("select 1 from pg_available_extensions where name = 'vector'").fetchone() is None:
            pytest.skip("this PostgreSQL has no pgvector")
        connection.execute("create extension vector")
    return empty_postgresql_url


def fill_table(database_url, vectors, column_type, table='"docs"', column="embedding"):
    """Create a table of vectors with ids and topics, by the type of its column."""
    with psycopg.connect(database_url) as connection:
        connection.execute(f"create table {table} (id bigint, {column} {column_type}, topic text)")
        rows = [
            (int(IDS[row]), str(vector.tolist()) if column_type[-1] != "]" else vector.tolist(), f"a\n{row % 4}")
            for row, vector in enumerate(vectors)
        ]
        connection.cursor().executemany(f"insert into {table} values (%s, %s, %s)", rows)


@pytest.fixture
def upload(run_cli, isoscope, work):
    """Upload by the command line and measure; return the embedding and what the command wrote to standard error."""

    def upload(*words):
        code, out, err = run_cli("upload", *words, "--json")
        assert code == 0, err
        work()
        return isoscope.embedding(json.loads(out)), err

    return upload


@pytest.fixture
def assert_measured_as_array(isoscope, work, tmp_path, module_cache):
    def score_array(vectors):
        np.save(tmp_path / "same.npy", vectors)
        same = isoscope.upload(tmp_path / "same.npy", name="same")
        work()
        return isoscope.score(same)

    def check(embedding, vectors):
        if (key := vectors.tobytes()) not in module_cache:
            module_cache[key] = score_array(vectors)
        downloaded = isoscope.download_vectors(embedding, tmp_path / "back.npy")
        assert np.array_equal(np.load(downloaded), vectors)
        measurements, expected = isoscope.score(embedding), module_cache[key]
        slugs = [slug for slug in expected if expected[slug]["value"] is not None]
        assert len(slugs) > 10
        assert [measurements[slug]["value"] for slug in slugs] == [expected[slug]["value"] for slug in slugs]

    return check


@pytest.mark.parametrize(
    ("column_type", "dtype"), [("vector(8)", "f4"), ("halfvec", "f2"), ("real[]", "f4"), ("double precision[]", "f8")]
)
def test_table_is_measured_as_array(
    upload, assert_measured_as_array, database_url, cloud, column_type, dtype, monkeypatch
):
    monkeypatch.setattr(stores, "MAX_BLOCK_NUMBERS", 1000)
    vectors = cloud.astype(dtype)
    fill_table(database_url, vectors, column_type)
    embedding, _ = upload("--table", "public.docs", "--postgres", database_url, "--keep", "id,topic")
    assert (embedding["name"], embedding["n"], embedding["d"]) == ("public.docs", 400, 8)
    assert (embedding["selection"]["names"], embedding["selection"]["labels"]) == ("id", "topic")
    assert_measured_as_array(embedding, vectors)


def test_service_replaces_connection_string(upload, database_url, cloud, tmp_path, monkeypatch):
    fill_table(database_url, cloud.astype("f4"), "vector")
    parameters = psycopg.conninfo.conninfo_to_dict(database_url)
    lines = [f"{name}={value}" for name, value in parameters.items()]
    (tmp_path / "services").write_text("\n".join(["[shop]", *lines]))
    monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "services"))
    monkeypatch.setenv("PGSERVICE", "shop")
    assert upload("--table", "docs", "--column", "embedding")[0]["n"] == 400


def test_names_are_quoted(upload, database_url, cloud):
    fill_table(database_url, cloud.astype("f4"), "vector", '"d""; drop table d/"', '"The ""Vector"", %s {}"')
    words = ("--postgres", database_url, "--column", 'The "Vector", %s {}', "--keep", "topic")
    embedding, _ = upload("--table", 'd"; drop table d/', *words)
    assert (embedding["n"], embedding["name"]) == (400, "d___drop_table_d_")


@pytest.mark.parametrize(
    ("statements", "words", "sentence"),
    [
        (["insert into docs values (5, null, '')"], ("--keep", "id"), "Row 401 (id 5) has no vector. Correct 'emb"),
        (["insert into docs values (5, '[1,2]', '')"], (), "Row 401 has 2 dimensions, those before it 8. Correct 'emb"),
        (
            ["alter table docs add other halfvec"],
            (),
            "Name the column of vectors by --column. Columns of docs are: 'id (int8)', 'e",
        ),
        (["alter table docs add few sparsevec(9)"], ("--column", "few"), "'few' is of type sparsevec. Choose a column"),
        (["delete from docs"], (), "docs has no rows, so there is nothing to measure."),
        (
            ["alter table docs drop embedding"],
            (),
            "Name the column of vectors by --column. Columns of docs are: 'id (int8)', 'topic (text)'.",
        ),
        (
            [],
            ("--column", "vec"),
            "docs has no column 'vec'. Columns are: 'id (int8)', 'embedding (vector)', 'topic (text)'.",
        ),
        (["alter table docs rename to items"], (), 'PostgreSQL could not read docs: relation "docs" does not exist.'),
        (
            [
                "alter table docs rename to items",
                "create function write() returns vector language sql "
                "as $$insert into items values (1) returning embedding$$",
                "create view docs as select write() as embedding from items",
            ],
            (),
            "PostgreSQL could not read docs: cannot execute INSERT in a read-only transaction.",
        ),
        (
            ["alter table docs add grids real[]", "update docs set grids = '{{1,2},{3,4}}'"],
            ("--column", "grids"),
            "Row 1 has no vector. Correct 'grids', or upload a view without such rows.",
        ),
    ],
)
def test_unusable_table_is_explained(run_cli, database_url, cloud, isoscope, statements, words, sentence):
    fill_table(database_url, cloud.astype("f4"), "vector")
    with psycopg.connect(database_url) as connection:
        for statement in statements:
            connection.execute(statement)
    code, out, err = run_cli("upload", "--table", "docs", "--postgres", database_url, *words)
    assert (code, out) == (1, "")
    assert sentence in err
    assert isoscope.embeddings() == []


@pytest.mark.parametrize(
    ("connection_string", "sentence"),
    [
        (f"postgresql://me:{PASSWORD}@127.0.0.1:{{port}}/shop", "PostgreSQL cannot be reached: "),
        (f"postgresql://me:{PASSWORD}/1@127.0.0.1/shop", "The connection string cannot be read. Write postgresql://"),
        (f"postgresql://me:1@{PASSWORD}@127.0.0.1/shop", "The connection string cannot be read. Write postgresql://"),
        (f"postgresql://me:1/{PASSWORD}?{PASSWORD}@127.0.0.1/", "The connection string cannot be read."),
        (f"host=127.0.0.1 password=my {PASSWORD}", "The connection string cannot be read. Write postgresql://"),
        (f"host=127.0.0.1 password=my {PASSWORD}=1", "The connection string cannot be read. Write postgresql://"),
        (
            f"service=none password={PASSWORD}",
            'PostgreSQL cannot be reached: connection is bad: definition of service "none" not found',
        ),
    ],
)
def test_password_is_in_no_error(run_cli, connection_string, sentence, caplog):
    caplog.set_level("DEBUG")
    connection_string = connection_string.format(port=free_port())
    code, out, err = run_cli("upload", "--table", "docs", "--postgres", connection_string)
    assert (code, out) == (1, "")
    assert sentence in err
    assert PASSWORD not in err + caplog.text


@pytest.mark.parametrize(
    ("factory", "is_exact"),
    [
        ("Flat", True),
        ("HNSW8,Flat", True),
        ("IVF4,Flat", True),
        ("PQ4x4fs,RFlat", True),
        ("IVF4,PQ4x4fs,RFlat", True),
        ("SQ8", False),
        ("PQ4x4", False),
        ("PCA4,IVF4,Flat", False),
    ],
)
def test_index_is_measured_as_array(upload, assert_measured_as_array, cloud, tmp_path, factory, is_exact, monkeypatch):
    monkeypatch.setattr(stores, "MAX_BLOCK_NUMBERS", 1000)
    vectors = cloud.astype("f4")
    index = faiss.index_factory(8, factory)
    index.train(vectors)
    index.add(vectors)
    if faiss.try_extract_index_ivf(index):
        faiss.try_extract_index_ivf(index).make_direct_map()
    faiss.write_index(index, str(tmp_path / "docs.faiss"))
    embedding, err = upload(tmp_path / "docs.faiss")
    assert_measured_as_array(embedding, vectors if is_exact else index.reconstruct_n(0, 400))
    assert embedding["name"] == "docs"
    assert ("docs.faiss stores codes (Index" in err, "decoded" in embedding["notes"]) == (not is_exact, not is_exact)


@pytest.mark.parametrize("factory", ["IDMap,Flat", "IDMap2,Flat", "IDMap,IVF4,Flat", "IVF4,Flat"])
def test_ids_of_index_name_rows(upload, assert_measured_as_array, isoscope, cloud, tmp_path, factory):
    vectors = cloud.astype("f4")
    index = faiss.index_factory(8, factory)
    index.train(vectors)
    index.add_with_ids(vectors, IDS)
    faiss.write_index(index, str(tmp_path / "docs.index"))
    embedding, _ = upload(tmp_path / "docs.index")
    assert_measured_as_array(embedding, vectors)
    nearest = faiss.IndexFlatIP(8)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    nearest.add(unit)
    _, neighbors = nearest.search(unit[[5]], 2)
    lookup = isoscope.neighbors(embedding, str(IDS[5]))["results"]["of"][0]
    assert lookup["before"][0]["row"] == neighbors[0, 1]


@pytest.mark.parametrize(
    "factory", ["LSH", "ITQ4,LSH", "IVF4,PQ4x4fs", "OPQ4,IVF4,PQ4x4fs", "binary", "text", "same id"]
)
def test_index_without_vectors_is_explained(run_cli, cloud, tmp_path, factory):
    path = tmp_path / "docs.faiss"
    if factory == "binary":
        index = faiss.IndexBinaryFlat(8)
        index.add(np.zeros((3, 1), np.uint8))
        faiss.write_index_binary(index, str(path))
    elif factory == "text":
        path.write_text("no index")
    else:
        index = faiss.index_factory(8, factory if factory != "same id" else "IVF4,Flat")
        index.train(cloud.astype("f4"))
        index.add_with_ids(cloud.astype("f4"), IDS * 0) if factory == "same id" else index.add(cloud.astype("f4"))
        faiss.write_index(index, str(path))
    code, out, err = run_cli("upload", path)
    unreadable = "is no FAISS index, is damaged, or is a binary index without vectors."
    problems = {"text": unreadable, "binary": unreadable, "same id": "Vectors of the index share an id"}
    assert (code, out) == (1, "")
    assert problems.get(factory, "cannot give its vectors back. Upload those that it was built from.") in err


def test_misuse_of_stores_is_explained(run_cli, tmp_path, monkeypatch):
    faiss.write_index(faiss.IndexFlatL2(4), str(tmp_path / "empty.faiss"))
    for words, sentence in (
        (("x.npy", "--column", "embedding"), "--postgres, --column and --keep read a table. Name it by --table."),
        (
            (tmp_path / "empty.faiss",) * 2,
            "empty.faiss: A FAISS index is read only by the command isoscope upload, and alone.",
        ),
        (("none.faiss",), "none.faiss cannot be read: No such file or directory."),
        ((tmp_path / "empty.faiss",), "empty has no rows, so there is nothing to measure."),
    ):
        code, out, err = run_cli("upload", *words)
        assert (code, out, err) == (1, "", f"{sentence}\n")
    for words in ((), ("x.npy", "--table", "docs")):
        with pytest.raises(SystemExit) as ended:
            run_cli("upload", *words)
        assert ended.value.code == 2
    monkeypatch.setitem(sys.modules, "faiss", None)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    assert "pip install 'isoscope[decide]'" in run_cli("upload", "x.faiss")[2]
    assert "pip install 'isoscope[postgres]'" in run_cli("upload", "--table", "docs")[2]
