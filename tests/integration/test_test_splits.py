from itertools import product

import pytest

from isoscope.files.columns import read_columns

HEAD = "sentence\tlabel\n"
TRAIN = HEAD + "".join(f"a film number {i}\t{i % 2}\n" for i in range(40))
VALIDATION = HEAD + "".join(f"a plot number {i}\t{i % 2}\n" for i in range(10))
TEST = HEAD + "a film number 3\t1\na plot number 4\t0\n" + "".join(f"a cast number {i}\t{i % 2}\n" for i in range(8))


def upload(client, train=TRAIN, validation=VALIDATION, test=None, names=None, **data):
    parts = {"train": train, "validation": validation, "test": test}
    names = names or {}
    files = {
        field: (names.get(field, f"{field}.tsv"), text.encode()) for field, text in parts.items() if text is not None
    }
    return client.post("/api/datasets", files=files, data=data)


def rows_of(context, dataset, split):
    columns = read_columns(
        context.storage.local_path(dataset_row(context, dataset, split)[0]),
        dataset_row(context, dataset, split)[1],
        ["sentence", "label"],
    )
    return list(zip(*columns.values(), strict=True))


def dataset_row(context, dataset, split):
    from app.training.datasets import get_dataset  # noqa: PLC0415

    row = get_dataset(context, dataset["id"])
    return getattr(row, f"{split}_sha256"), getattr(row, f"{split}_filename")


def test_test_file_reports_leaks_and_unseen_labels(client, models_dir):
    dataset = upload(client, test=TEST).json()
    assert (dataset["n_train"], dataset["n_validation"], dataset["n_test"]) == (40, 10, 10)
    assert dataset["test_filename"] == "test.tsv"
    sentence = dataset["columns"][0]
    assert (sentence["n_test_also_train"], sentence["n_test_also_validation"]) == (1, 1)
    page = client.get(f"/datasets/{dataset['id']}").text
    assert "10 test rows" in page
    assert "1 test row of 10 has a text that a train row has too" in page
    assert "1 test row of 10 has a text that a validation row has too" in page
    dataset = upload(client).json()
    assert (dataset["n_test"], dataset["test_filename"], dataset["division"]) == (None, None, None)
    assert "test row" not in client.get(f"/datasets/{dataset['id']}").text
    dataset = upload(client, test=TEST + "a new film\t7\n").json()
    assert dataset["columns"][1]["n_test_unseen"] == 1
    request = {"dataset_id": dataset["id"], "text_columns": ["sentence"], "label_column": "label", "model": "minilm"}
    refused = client.post("/api/experiments", json=request).json()
    assert refused["field"] == "label_column"
    assert "test file" in refused["detail"]


@pytest.mark.sandbox
def test_column_or_fractions_divide_one_file(client, context):
    splits = ["train"] * 6 + ["dev", "valid", "test", "test"]
    text = "sentence\tlabel\tpart\n" + "".join(
        f'"a ""film"" number {i}"\t{i % 2}\t{part}\n' for i, part in enumerate(splits)
    )
    dataset = upload(client, text, None, split_column="part", split_validation="dev, valid").json()
    assert (dataset["n_train"], dataset["n_validation"], dataset["n_test"]) == (6, 2, 2)
    assert [column["name"] for column in dataset["columns"]] == ["sentence", "label"]
    assert dataset["division"]["validation"] == ["dev", "valid"]
    assert [label for _, label in rows_of(context, dataset, "test")] == ["0", "1"]
    assert "Column part says which rows they are: test" in client.get(f"/datasets/{dataset['id']}").text
    assert len(list(context.storage.list_files())) == 3  # the divided file is deleted
    client.delete(f"/api/datasets/{dataset['id']}")
    assert list(context.storage.list_files()) == []
    rows = [f"a film number {i // 2}\t{i % 2}\n" for i in range(100)]
    dataset = upload(client, HEAD + "".join(rows), None, validation_fraction="0.2", split_seed="3").json()
    assert (dataset["n_train"], dataset["n_validation"], dataset["n_test"]) == (80, 20, None)
    train, validation = ({text for text, _ in rows_of(context, dataset, split)} for split in ("train", "validation"))
    assert not train & validation
    page = client.get(f"/datasets/{dataset['id']}").text
    assert "The validation rows were drawn from the train rows by seed 3, a fraction of 0.2." in page
    fractions = {"validation_fraction": "0.3", "test_fraction": "0.1", "split_seed": "3"}
    divided = upload(client, HEAD + "".join(rows), None, **fractions).json()
    assert (divided["n_train"], divided["n_validation"], divided["n_test"]) == (60, 30, 10)
    splits = [{text for text, _ in rows_of(context, divided, split)} for split in ("train", "validation", "test")]
    assert len(set.union(*splits)) == sum(map(len, splits)) == 50
    tested = upload(client, HEAD + "".join(rows), VALIDATION, test_fraction="0.1", split_seed="3").json()
    assert {text for text, _ in rows_of(context, tested, "test")} == splits[2]


def test_invalid_division_and_unlabeled_test_file_are_refused(client, context):
    cases = [
        ({"split_column": "fold"}, "split_column", "No column named 'fold'. Columns are: 'sentence', 'label'."),
        ({"split_column": "label", "split_train": "0", "split_validation": "1", "split_test": "2"}, "split_test",
         "'2'"), ({"split_column": "label", "split_train": "0", "split_validation": "2"}, "split_column", "holds '1'"),
        ({"split_column": "label", "split_train": "0", "split_validation": "0"}, "split_column", "in two"),
        ({"split_column": "label", "split_train": " , "}, "split_column", "at least one value"),
        ({}, "validation", "No validation file"),
        ({"split_column": "label", "test_fraction": "0.1"}, "test_fraction", "not both"),
        ({"split_column": "label", "validation_fraction": "0.1"}, "validation_fraction", "not both"),
        ({"test_fraction": "0.1"}, "validation", "No validation file"),
    ]  # fmt: skip
    for data, field, sentence in cases:
        refused = upload(client, TRAIN, None, **data)
        assert refused.status_code == 422
        assert refused.json()["field"] == field, refused.json()
        assert sentence in refused.json()["detail"]
        assert list(context.storage.list_files()) == []
    cases = [
        (HEAD + "a film\t-1\na plot\t-1\n", "no labels"), (HEAD + "a film\t\na plot\t\n", "no labels"),
        (HEAD + "a film\tunknown\na plot\tunknown\n", "no labels"), ("sentence\na film\n", "No column named 'label'"),
        ("sentence\tlabel\n", "no rows"),
    ]  # fmt: skip
    for test, sentence in cases:
        refused = upload(client, test=test)
        assert (refused.status_code, refused.json()["field"]) == (422, "test")
        assert sentence in refused.json()["detail"]
        assert list(context.storage.list_files()) == []
    for division in [{"validation_fraction": "0.2"}, {"split_column": "label"}]:
        refused = upload(client, HEAD, None, **division).json()
        assert refused["field"] == "train"
        assert "the file names columns but has no rows" in refused["detail"]
    assert upload(client, split_column="label").json()["field"] == "validation"
    assert upload(client, test=TEST, test_fraction="0.1").json()["field"] == "test_fraction"
    assert upload(client, validation_fraction="0.1").json()["field"] == "validation_fraction"
    refused = upload(client, HEAD + "one long film text\t1\n" * 39 + "another\t0\n", test_fraction="0.4")
    assert refused.json()["field"] == "test_fraction"
    assert "39 of 40" in refused.json()["detail"]
    for value in ("0.9", "0", "much"):
        assert upload(client, test_fraction=value).json()["field"] == "test_fraction"
        assert upload(client, TRAIN, None, validation_fraction=value).json()["field"] == "validation_fraction"
    two = HEAD + "a film number 0\t0\na film number 1\t1\n"
    refused = upload(client, two, None, validation_fraction="0.5", test_fraction="0.5").json()
    assert refused["field"] == "test_fraction"
    assert "No test split of 1 row can be drawn" in refused["detail"]
    assert "the largest group of rows that share texts has 1 of 2 rows" in refused["detail"]


def test_fraction_is_drawn_by_seed_and_shares_no_text(client, context):
    """Rows come in pairs of equal texts, some also in validation; the last ten rows are one group."""
    rows = [f"a film number {i // 2}\t{i % 2}\n" for i in range(60)] + ["the same film\t1\n"] * 10
    validation = VALIDATION + "a film number 0\t1\na film number 1\t1\n"
    dataset = upload(client, HEAD + "".join(rows), validation, test_fraction="0.2", split_seed="3").json()
    assert (dataset["n_train"], dataset["n_validation"], dataset["n_test"]) == (56, 12, 14)
    assert dataset["division"] == {"kind": "fraction", "fraction": 0.2, "validation_fraction": None, "seed": 3}
    train, validation_rows, test = (
        {text for text, _ in rows_of(context, dataset, split)} for split in ("train", "validation", "test")
    )
    assert not test & (train | validation_rows)
    column = dataset["columns"][0]
    assert (column["n_test_also_train"], column["n_test_also_validation"]) == (0, 0)
    assert "by seed 3" in client.get(f"/datasets/{dataset['id']}").text

    shuffled = upload(client, HEAD + "".join(reversed(rows)), validation, test_fraction="0.2", split_seed="3").json()
    assert {text for text, _ in rows_of(context, shuffled, "test")} == test
    other_dataset = upload(client, HEAD + "".join(rows), validation, test_fraction="0.2", split_seed="4").json()
    assert {text for text, _ in rows_of(context, other_dataset, "test")} != test


def test_pages_divide_files_and_name_the_unreadable_one(client):
    for field, content in product(["train", "validation"], [HEAD + "a film\t1\t2\n", "label\tlabel\n0\t1\n"]):
        refused = upload(client, **{field: content}, names={field: "mine.tsv"}, test_fraction="0.2").json()
        assert (refused["field"], refused["detail"].startswith("mine.tsv: ")) == (field, True)
    files = {"train": ("train.tsv", TRAIN.encode()), "validation": ("", b""), "test": ("", b"")}
    page = client.post("/datasets", files=files, data={"name": "RTE", "split_column": "fold", "split_test": "held out"})
    assert (page.status_code, "No column named &#39;fold&#39;" in page.text) == (422, True)
    assert 'value="held out"' in page.text
    page = client.post("/datasets", files=files)
    assert (page.status_code, 'id="name-error"' in page.text) == (422, True)
    assert "Enter a name. The file name train does not tell data sets apart." in page.text
    files = {"train": ("t.tsv", TRAIN.encode()), "validation": ("v.tsv", VALIDATION.encode()), "test": ("", b"")}
    response = client.post("/datasets", files=files, data={"test_fraction": "0.1", "split_seed": "1"})
    assert response.status_code == 303
    assert "4 test rows" in client.get(response.headers["location"]).text
    assert client.post("/api/datasets/hub", json={"name": "mrpc"}).json()["n_test"] == 1725
    assert client.post("/api/datasets/hub", json={"name": "mrpc", "test": False}).json()["n_test"] is None
    assert client.post("/api/datasets/hub", json={"name": "rte"}).json()["n_test"] is None
    refused = client.post("/api/datasets/hub", json={"name": "rte", "test": True})
    assert (refused.status_code, refused.json()["field"]) == (422, "test")
    assert "-1" in refused.json()["detail"]


def test_training_keeps_rows_of_every_label(client, context):
    """Three of 200 rows have a rare label; some seeds would draw all three."""
    rows = [f"a film number {i}\t{'rare' if i < 3 else i % 2}\n" for i in range(200)]
    fractions = {"validation_fraction": "0.5", "test_fraction": "0.4"}
    for seed in range(6):
        dataset = upload(client, HEAD + "".join(rows), None, split_seed=str(seed), **fractions).json()
        labels = [label for _, label in rows_of(context, dataset, "train")]
        assert {*labels} == {"rare", "0", "1"}
        assert dataset["n_train"] + dataset["n_validation"] + dataset["n_test"] == 200
        assert dataset["n_train"] <= 23
