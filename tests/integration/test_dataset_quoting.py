import pytest
from sqlalchemy import update

from app.db.config import RunConfig
from app.db.models import Dataset, Encoding, Experiment
from app.training.datasets import get_dataset
from tests.factories import SHARED
from workers.training.data import describe_rows, load_columns

HEAD = "sentence\tlabel\n"
QUOTED = HEAD + "".join(f'"When was the ""X"" period {i}?"\t{i % 2}\n' for i in range(8))
PAIRS = HEAD + '"Yes."\t1\n"No."\t0\n'
GLUE = HEAD + "".join(f'He said "no" {i} times\t{i % 2}\n' for i in range(8))
COLUMNS = {"text_columns": ["sentence"], "label_column": "label"}
CONFIG = RunConfig.model_construct(**COLUMNS, train_rows=None, validation_rows=None)


def upload(client, train=QUOTED, validation=QUOTED, **data):
    files = {"train": ("train.tsv", train.encode())}
    files |= {} if validation is None else {"validation": ("dev.tsv", validation.encode())}
    return client.post("/api/datasets", files=files, data=data)


def first_texts(context, dataset_id):
    parts = load_columns(get_dataset(context, dataset_id), CONFIG, context.settings)
    return [part.columns["sentence"][0] for part in parts]


def test_page_names_quoting_and_switches_it(client, context):
    dataset = upload(client).json()
    assert dataset["quoting"] == {"train": "quoted", "validation": "quoted"}
    assert dataset["columns"][0]["examples"][0] == 'When was the "X" period 0?'
    address = f"/datasets/{dataset['id']}"
    page = client.get(address).text
    assert "in train.tsv enclose cells" in page
    assert "in dev.tsv enclose cells" in page
    assert "Read quotes as part of the text" in page
    assert "Read quotes as enclosing cells" not in page
    assert client.post(f"{address}/quoting", data={"quoting": "text"}).headers["location"] == address
    dataset = client.get(f"/api{address}").json()
    assert dataset["quoting"] == {"train": "text", "validation": "text"}
    assert dataset["columns"][0]["examples"][0] == '"When was the ""X"" period 0?"'
    assert "Read quotes as enclosing cells" in client.get(address).text
    assert first_texts(context, dataset["id"]) == ['"When was the ""X"" period 0?"'] * 2


def test_run_reads_detected_quoting(client, context):
    dataset = upload(client, validation=PAIRS).json()
    assert dataset["quoting"]["validation"] == "quoted"
    assert first_texts(context, dataset["id"]) == ['When was the "X" period 0?', "Yes."]
    assert describe_rows(get_dataset(context, dataset["id"]))["quoting"] == dataset["quoting"]
    dataset = upload(client, GLUE, PAIRS).json()
    assert dataset["quoting"] == {"train": "text", "validation": "text"}
    assert first_texts(context, dataset["id"]) == ['He said "no" 0 times', '"Yes."']
    dataset = upload(client, HEAD + "one\t1\n", HEAD + "two\t1\n").json()
    assert dataset["quoting"] == {}
    assert "Read quotes" not in client.get(f"/datasets/{dataset['id']}").text


@pytest.mark.sandbox
def test_upload_sets_quoting_and_encoding_inherits_it(client, context):
    dataset = upload(client, PAIRS, PAIRS, quoting="quoted").json()
    assert dataset["quoting"] == {"train": "quoted", "validation": "quoted"}
    assert first_texts(context, dataset["id"]) == ["Yes.", "Yes."]
    refused = upload(client, GLUE, QUOTED, quoting="quoted").json()
    assert refused["field"] == "quoting"
    assert "train.tsv: Line 2 holds a quote" in refused["detail"]
    assert upload(client, quoting="both").status_code == 422
    for reading in ("text", "quoted"):
        dataset = upload(client, quoting=reading).json()
        encoding = client.post("/api/encodings", data={"dataset_id": dataset["id"], "split": "train"}).json()
        assert encoding["quoting"] == reading
        assert encoding["columns"][0]["examples"] == dataset["columns"][0]["examples"]
        with context.sessions() as session:
            assert session.get(Encoding, encoding["id"]).quoting == reading


def test_split_parts_share_quoting(client, context):
    part = "sentence\tlabel\tpart\n" + "".join(
        f'"a ""film"" {i}"\t{i % 2}\t{"dev" if i > 5 else "train"}\n' for i in range(8)
    )
    values = {"split_column": "part", "split_validation": "dev"}
    dataset = upload(client, part, None, **values).json()
    assert first_texts(context, dataset["id"]) == ['a "film" 0', 'a "film" 6']
    page = client.get(f"/datasets/{dataset['id']}").text
    assert "enclose cells" in page
    assert "Read quotes" not in page
    refuse(client, dataset, "Upload the file again")
    dataset = upload(client, part, None, quoting="text", **values).json()
    assert first_texts(context, dataset["id"]) == ['"a ""film"" 0"', '"a ""film"" 6"']
    drawn = upload(client, QUOTED, PAIRS, test_fraction="0.25").json()
    assert drawn["quoting"] == {"train": "quoted", "validation": "quoted"}
    assert first_texts(context, drawn["id"])[1] == "Yes."


def refuse(client, dataset, sentence, quoting="text"):
    refused = client.put(f"/api/datasets/{dataset['id']}/quoting", json={"quoting": quoting})
    assert (refused.status_code, refused.json()["field"]) == (409, "quoting")
    assert sentence in refused.json()["detail"]


def test_quoting_is_fixed_once_experiment_used_data_set(client, context):
    dataset = upload(client).json()
    with context.sessions.begin() as session:
        session.add(Experiment(name="e", dataset_id=dataset["id"], config=SHARED))
    refuse(client, dataset, "used by an experiment")
    page = client.post(f"/datasets/{dataset['id']}/quoting", data={"quoting": "text"})
    assert (page.status_code, "used by an experiment" in page.text) == (409, True)
    assert get_dataset(context, dataset["id"]).quoting == dataset["quoting"]
    with context.sessions.begin() as session:  # as it was stored before quotes were detected
        session.execute(update(Dataset).values(quoting=None))
    assert first_texts(context, dataset["id"]) == ['"When was the ""X"" period 0?"'] * 2
    assert "quoting" not in describe_rows(get_dataset(context, dataset["id"]))
    refuse(client, dataset, "If an earlier version of Isoscope stored it, upload the files again", "quoted")
