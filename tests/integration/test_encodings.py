import html
import re
import shutil
from datetime import timedelta

import pytest
from sqlalchemy import select

from app.db.models import Embedding, Encoding, EncodingStatus, Pooling, StoredFile
from app.db.types import utcnow
from app.db.work import list_waiting_jobs
from app.embeddings import encodings
from app.embeddings.encoding_layers import LayersQuery, build_layers_report
from app.embeddings.figures.layers import POOLING_TITLES
from app.training.queue_status import list_unfinished_encodings
from tests.cached_rows import make_once
from tests.factories import add_embedding, add_encoding
from tests.queries import queries_of
from tests.tiny import make_table
from workers.embeddings.encoding import encode_texts

pytestmark = pytest.mark.usefixtures("models_dir")

TEXTS = make_table(30, 3)


def upload(client):
    return client.post("/encodings", files={"file": ("reviews.tsv", TEXTS)}).headers["location"]


@pytest.fixture
def draft(client):
    return upload(client)


@pytest.fixture
def encoding(client, context, work, module_cache):
    """The path of a finished encoding, three layers under two poolings, all measured."""

    def encode():
        draft = upload(client)
        client.post(f"{draft}/launch", data=form(poolings=["first", "mean"]))
        work()
        return draft

    return make_once(context, module_cache, "encoding", encode)


def form(**changed):
    values = {
        "model": "tiny-bert", "text_columns": ["sentence", ""], "label_column": "label", "poolings": ["mean"],
        "layers": "", "max_rows": "2000", "max_length": "64", "batch_size": "8", "seed": "0",
    }  # fmt: skip
    return values | changed


def config(**changed):
    return {"model": "tiny-bert", "text_columns": ["sentence"], **changed}


def words(answer):
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", answer.text)).split())


def test_uploaded_texts_are_draft_with_plan(client, draft):
    page = client.get(draft)
    assert "reviews.tsv, added just now" in words(page)
    assert '<option value="sentence" selected>' in page.text
    assert '<option value="label" selected>' in page.text
    assert "First values" in page.text
    page_text = words(client.get(draft, params=form(poolings=["first", "mean"], max_rows="10")))
    assert "6 embeddings" in page_text
    assert "3 layers × 2 poolings, of 10 rows × 16 dimensions: 3.84 kB on the disk" in page_text
    plan = client.post(f"/api{draft}/plan", json=config(poolings=["mean"], layers=[2])).json()
    assert plan == {
        "rows": 30, "layers": 1, "embeddings": 1, "dimensions": 16, "size_bytes": 1920, "queries": 0, "matches": None,
    }  # fmt: skip
    page_text = words(client.get(draft, params=form(model="google-bert/bert-base-cased")))
    assert "Every layer" in page_text
    assert "the number of layers is known once the model is downloaded" in page_text


def test_encoding_measures_each_layer(client, encoding):
    answer = client.get(f"/api{encoding}").json()
    assert (answer["status"], answer["done"], answer["total"]) == ("finished", 30, 30)
    assert (answer["config"]["poolings"], answer["config"]["seed"]) == (["first", "mean"], 0)
    layers = client.get(f"/api{encoding}/layers").json()
    assert [(row["layer"], row["pooling"]) for row in layers] == [
        (layer, pooling) for layer in (0, 1, 2) for pooling in ("first", "mean")
    ]
    assert {(row["status"], row["n"], row["d"]) for row in layers} == {("ready", 30, 16)}
    last = {row["measure"]: row for row in layers[-1]["measurements"]}
    embedding = client.get(f"/api/embeddings/{layers[-1]['embedding_id']}").json()
    assert last["isoscore"]["value"] == {row["measure"]: row for row in embedding["measurements"]}["isoscore"]["value"]
    assert last["silhouette"]["value"] is not None
    assert "detail" not in last["isoscore"]
    query = {"pooling": "first", "measures": ["mean_cosine", "isoscore"], "by": "mean_cosine"}
    rows = client.get(f"{encoding}/figures/heat-map.csv", params=query).text.splitlines()
    assert rows[0] == "layer,measure,value,se,n,reason"
    assert [row.split(",")[:2] for row in rows[1:3]] == [["0", "isoscore"], ["0", "mean_cosine"]]
    line = client.get(f"{encoding}/figures/by-layer.csv", params=query).text.splitlines()
    assert line[0] == "pooling,layer,mean_cosine,se,n,reason"
    value = {layer["measure"]: layer["value"] for layer in layers[3]["measurements"]}["mean_cosine"]
    assert f"mean,1,{value}," in "\n".join(line)
    figure = client.get(f"{encoding}/figures/by-layer.json", params=query).json()
    assert figure["layout"]["yaxis"]["autorangeoptions"] == {"clipmin": -1, "clipmax": 1}
    names = [trace["name"] for trace in figure["data"]]
    assert names == [POOLING_TITLES["first"], POOLING_TITLES["mean"]]
    assert client.get(f"{encoding}/figures/none.csv").status_code == 404


def test_report_links_numbers_to_layers_and_layers_to_neighbors(client, encoding):
    layers = client.get(f"/api{encoding}/layers").json()
    means = [row["embedding_id"] for row in layers if row["pooling"] == "mean"]
    page = client.get(encoding)
    for row in means:
        assert page.text.count(f'"/embeddings/{row}?tab=details#all-measures"') == 11
    compared = "&".join(f"id={row}" for row in means)
    assert f'href="/compare?{compared}"' in html.unescape(page.text)
    firsts = client.get(encoding, params={"pooling": "first", "measures": ["isoscore", "twonn"], "by": "twonn"})
    assert means[0] not in firsts.text
    assert firsts.text.count("#all-measures") == 3 * 2
    assert "Intrinsic dimension, TwoNN by layer" in firsts.text
    first, second, last = (client.get(f"/embeddings/{row}") for row in means)
    assert "Layer 1 of 2, mean pooling, of reviews through tiny-bert" in words(second)
    assert f'href="{encoding}?pooling=mean"' in second.text
    assert [f'href="/embeddings/{row}" rel' in second.text for row in means] == [True, False, True]
    assert "previous layer" not in first.text
    assert "next layer" not in last.text


def statements(context, do):
    return [statement for statement, _ in queries_of(context, do) if statement.startswith("SELECT")]


def test_query_count_of_report_is_constant_in_layers(context):
    counts = []
    for count in (1, 6):
        encoding_id = add_encoding(context)
        for layer in range(count):
            add_embedding(
                context, values_by_measure={"isoscore": 0.5}, encoding_id=encoding_id, layer=layer, pooling=Pooling.MEAN
            )
        encoding = encodings.get_encoding(context, encoding_id)
        selects = statements(context, lambda: build_layers_report(context, encoding, LayersQuery(None, (), "")))  # noqa: B023
        counts.append(len(selects))
        assert not any(re.search(r"\.(detail|inspection|selection)\b", row) for row in selects)
    assert counts == [4, 4]


def test_page_refreshes_while_layers_are_measured(client, context, draft):
    assert "reviews" not in client.get("/queue").text
    client.post(f"{draft}/launch", data=form())
    for path in ("/queue", "/encodings"):
        assert "tiny-bert" in client.get(path).text
    assert "No worker is running. It starts when one does." in words(client.get(draft))
    assert 'hx-trigger="every 2s"' in client.get(draft).text
    encode_texts(draft.rsplit("/", 1)[-1], context.settings, "cpu")
    page = client.get(draft)
    assert "encoded, measuring 1 of 3" in words(page)
    assert "0 of 3 embeddings measured" in words(page)
    assert 'hx-trigger="every 2s"' in page.text


def test_cancelled_or_failed_encoding_can_be_launched_again(client, context, work, draft, models_dir):
    assert client.post(f"/api{draft}/launch", json=config()).status_code == 200
    assert client.post(f"/api{draft}/launch", json=config(layers=[1])).status_code == 409, "launched once"
    assert client.post(f"{draft}/cancel").status_code == 303
    assert "Change and run again" in client.get(draft).text
    assert work() == 0
    refused = client.post(f"/api{draft}/cancel")
    assert refused.json()["detail"] == "Only a queued or running encoding can be cancelled; this one is cancelled."
    folder = models_dir / "passing"
    shutil.copytree(models_dir / "tiny-bert", folder)
    client.post(f"{draft}/launch", data=form(model="passing"))
    shutil.rmtree(folder)
    work()
    page = client.get(draft)
    assert "This could not be encoded." in page.text
    assert "There is no model 'passing'" in words(page)
    assert 'value="passing"' in page.text
    client.post(f"{draft}/launch", data=form(layers="2"))
    work()
    assert [row["layer"] for row in client.get(f"/api{draft}/layers").json()] == [2]
    refused = client.post(f"/api{draft}/launch", json=config())
    assert refused.status_code == 409
    assert "can be launched; this encoding is finished" in refused.json()["detail"]


def test_encodings_queue_by_launch_time(client, context, draft):
    with context.sessions.begin() as session:
        row = session.scalars(select(Encoding)).one()
        row.created_at = row.queued_at = utcnow() - timedelta(days=2)
        texts = {"filename": "a.txt", "file_sha256": row.file_sha256, "n_texts": 1, "columns": []}
        session.add(first_in_queue := Encoding(name="e", status=EncodingStatus.QUEUED, **texts))
    client.post(f"{draft}/launch", data=form())
    assert [job.row_id for job in list_waiting_jobs(context.sessions)] == [first_in_queue.id, row.id]
    assert [encoding.id for encoding in list_unfinished_encodings(context)] == [first_in_queue.id, row.id]


def test_deletion_in_any_state_leaves_no_rows_or_files(client, context, work, encoding):
    client.post(f"{encoding}/delete")
    with context.sessions() as session:
        assert [session.scalars(select(table)).all() for table in (Encoding, Embedding, StoredFile)] == [[], [], []]
    assert list(context.settings.files.iterdir()) == []
    page = client.post("/encodings", files={"file": ("t.tsv", TEXTS)}).headers["location"]
    client.post(f"{page}/launch", data=form())
    assert client.delete(f"/api{page}").status_code == 204
    assert client.get(page).status_code == 404
    assert work() == 0
    assert list(context.settings.files.iterdir()) == []


def test_encoding_reuses_texts_of_data_set(client, context, work):
    files = {"train": ("train.tsv", TEXTS), "validation": ("validation.tsv", make_table(20, 4))}
    dataset = client.post("/api/datasets", files=files, data={"name": "Tiny"}).json()
    stored = set(context.settings.files.iterdir())
    encoding = client.post("/api/encodings", data={"dataset_id": dataset["id"], "split": "validation"}).json()
    assert (encoding["name"], encoding["n_texts"], encoding["filename"]) == ("Tiny, validation", 20, "validation.tsv")
    assert set(context.settings.files.iterdir()) == stored
    page = client.post("/encodings/of-dataset", data={"dataset_id": dataset["id"], "split": "train"})
    assert "30 rows of train.tsv" in words(client.get(page.headers["location"]))
    assert client.delete(f"/api/datasets/{dataset['id']}").status_code == 204
    client.post(f"/api/encodings/{encoding['id']}/launch", json=config(layers=[0]))
    work()
    assert client.get(f"/api/encodings/{encoding['id']}").json()["status"] == "finished"


def test_statement_count_of_deletion_is_constant_in_layers(context):
    statement_counts = []
    for count in (3, 60):
        encoding = add_encoding(context)
        for layer in range(count):
            add_embedding(
                context, values_by_measure={"isoscore": 0.5}, contents=[b"shared"], encoding_id=encoding, layer=layer
            )
        statement_counts.append(len(statements(context, lambda: encodings.delete_encoding(context, encoding))))  # noqa: B023
        assert list(context.settings.files.iterdir()) == []
    assert statement_counts[0] == statement_counts[1]


def test_text_lines_skip_blanks_and_columns_are_checked(client, work):
    content = "the film\n\n" + "a good plot\nvery dull\n" * 6
    page = client.post("/encodings", files={"file": ("lines.txt", content)}).headers["location"]
    assert '<option value="line" selected>' in client.get(page).text
    client.post(f"{page}/launch", data=form(text_columns=["line"], label_column=""))
    work()
    assert client.get(f"/api{page}").json()["environment"]["texts"] == {"n": 13, "n_empty": 1}
    assert "1 row without a text was left out" in words(client.get(page))
    table = "text\tid\tnothing\n" + "".join(f"word {i}\t{i}\t\n" for i in range(300))
    page = client.post("/encodings", files={"file": ("many.tsv", table)}).headers["location"]
    refused = client.post(f"/api{page}/launch", json=config(text_columns=["text"], label_column="id"))
    assert "The column 'id' has 300 different values, labels at most 200" in refused.json()["detail"]
    refused = client.post(f"/api{page}/launch", json=config(text_columns=["nothing"]))
    assert refused.json()["detail"] == "The column 'nothing' is empty in every row: choose another."


def test_invalid_configuration_is_rejected_at_its_field(client, draft, monkeypatch):
    refused = [
        ({"model": "no such model"}, "model", "Expected one of all-MiniLM-L6-v2"),
        ({"text_columns": ["headline"]}, "text_columns", "The file has no column 'headline': choose one of 'sentence'"),
        ({"text_columns": ["sentence", "sentence"]}, "text_columns", "The same text column was chosen twice"),
        ({"label_column": "gold"}, "label_column", "The file has no column 'gold'"),
        ({"layers": [0, 3]}, "layers", "tiny-bert has layers 0 to 2, got 3."),
        ({"poolings": []}, "poolings", "Expected poolings with 1 or more values, got 0."),
    ]
    refused_forms = [
        ({"poolings": []}, "Enter 1 or more values."),
        ({"layers": "one"}, "Enter a whole number, not 'one'."),
        ({"max_rows": "1"}, "Enter a number of at least 2, not 1."),
    ]
    for changed, field, sentence in refused:
        answer = client.post(f"/api{draft}/launch", json=config(**changed))
        assert (answer.status_code, answer.json()["field"]) == (422, field)
        assert sentence in answer.json()["detail"]
    for changed, sentence in refused_forms:
        answer = client.post(f"{draft}/launch", data=form(model="tiny-gpt2", **changed), follow_redirects=True)
        assert "checked=true" in str(answer.url)
        assert sentence in words(answer)
        assert 'value="tiny-gpt2"' in answer.text
        assert "Not ready" in answer.text
    monkeypatch.setattr("app.db.encoding.MAX_EMBEDDINGS", 5)
    answer = client.post(f"/api{draft}/launch", json=config(poolings=["first", "mean"]))
    assert answer.json()["detail"] == (
        "Expected at most 5 embeddings of 34.4 GB together, got 6 of 0.0 GB. Choose fewer layers, poolings or rows."
    )
    assert client.get(f"/api{draft}").json()["status"] == "draft"


def test_source_without_texts_is_rejected_and_not_stored(client, context):
    no_texts = [
        ({"files": {"file": ("x.npy", b"\x93NUMPY")}}, "file", "x.npy: Expected .parquet, .jsonl, .csv, .tsv or .txt"),
        ({"files": {"file": ("x.csv", b"text\n")}}, "file", "x.csv: the file names columns but has no rows"),
        ({"data": {"name": "nothing"}}, "file", "Expected either a file of texts or a dataset_id; give one of them."),
        ({"data": {"dataset_id": "none"}}, "dataset_id", "There is no data set 'none'"),
    ]
    for values, field, sentence in no_texts:
        answer = client.post("/api/encodings", **values)
        assert (answer.json()["field"], sentence in answer.json()["detail"]) == (field, True), answer.text
    assert client.get("/api/encodings").json() == []
    assert list(context.settings.files.iterdir()) == []
    assert "Expected a file of texts: choose one." in words(client.post("/encodings", data={"name": "x"}))
    answer, layers = (client.get(f"/api/encodings/none{suffix}") for suffix in ("", "/layers"))
    assert (answer.status_code, "no encoding 'none'" in answer.json()["detail"], layers.status_code) == (404, True, 404)
    dataset = client.post("/api/datasets/hub", json={"name": "sst2"}).json()
    answer = client.post("/api/encodings", data={"dataset_id": dataset["id"]})
    assert "GLUE SST-2 has no files here: a worker fetches them" in answer.json()["detail"]
    page = client.post("/encodings/of-dataset", data={"dataset_id": dataset["id"], "split": "train"})
    assert (page.status_code, "has no files here" in words(page)) == (422, True)
    assert "GLUE SST-2" not in client.get("/encodings").text
