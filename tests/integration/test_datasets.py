import gzip
import json
from itertools import product

import pytest
from sqlalchemy import update

from app.db.config import RunConfig
from app.db.models import Dataset, Encoding, Experiment
from app.training.datasets import get_dataset
from isoscope.files.columns import read_columns
from tests.factories import SHARED
from tests.texts import tsv
from workers.training.data import describe_rows, load_columns

HEAD = "sentence\tlabel\n"
TRAIN = HEAD + "".join(f"a film number {i}\t{i % 2}\n" for i in range(40))
VALIDATION = HEAD + "".join(f"a plot number {i}\t{i % 2}\n" for i in range(10))
TEST = HEAD + "a film number 3\t1\na plot number 4\t0\n" + "".join(f"a cast number {i}\t{i % 2}\n" for i in range(8))
LABELED_TRAIN = HEAD + "".join(f"{'word ' * (1 + i % 3)}{i}\t{'yes' if i % 4 else 'no'}\n" for i in range(40))
LABELED_VALIDATION = HEAD + "".join(f"other words {i}\t{'yes' if i % 2 else 'no'}\n" for i in range(10))
QUOTED = HEAD + "".join(f'"When was the ""X"" period {i}?"\t{i % 2}\n' for i in range(8))
PAIRS = HEAD + '"Yes."\t1\n"No."\t0\n'
GLUE = HEAD + "".join(f'He said "no" {i} times\t{i % 2}\n' for i in range(8))
COLUMNS = {"text_columns": ["sentence"], "label_column": "label"}
CONFIG = RunConfig.model_construct(**COLUMNS, train_rows=None, validation_rows=None)


def test_dataset_lists_its_columns_and_proposed_task(client):
    assert client.get("/api/datasets").json() == []
    dataset = client.post("/api/datasets", files={"train": tsv(), "validation": tsv(name="validation.tsv")}).json()
    assert (dataset["n_train"], dataset["n_validation"], dataset["hub_name"]) == (20, 20, None)
    assert [column["name"] for column in dataset["columns"]] == ["sentence", "other", "label"]
    label = dataset["columns"][2]
    assert (label["n_distinct"], label["values"]) == (2, ["0", "1"])
    columns = {"text_columns": ["sentence"], "label_column": "label"}
    assert dataset["proposal"] == columns | {"task": "classification", "metric": "accuracy", "n_classes": 2}
    texts = dict.fromkeys(("train", "validation"), ("texts.tsv", "sentence\na\nb\n"))
    assert client.post("/api/datasets", files=texts).json()["proposal"] is None


def test_unreadable_rows_are_refused_and_not_stored(client, context):
    unreadable = [
        (("train.tsv", b""), "empty"),
        (("train.xlsx", b"PK\x03\x04"), ".xlsx"),
        (("train.jsonl", b'{"sentence": \n'), "line 1"),
        (("train.parquet", b"PAR1nonsense"), "parquet"),
    ]
    for train, sentence in unreadable:
        answer = client.post("/api/datasets", files={"train": train, "validation": tsv(name="validation.tsv")})
        assert answer.status_code in {415, 422}, answer.text
        assert sentence.lower() in answer.json()["detail"].lower()
    assert client.get("/api/datasets").json() == []
    assert [path for path in (context.settings.root / "files").rglob("*") if path.is_file()] == []


def test_gzipped_rows_of_questions_are_a_span_task(client):
    row = {"question": "Where?", "context": "It is here.", "answers": {"text": ["here"], "answer_start": [6]}}
    content = gzip.compress(f"{json.dumps(row)}\n".encode() * 3)
    files = {name: (f"{name}.jsonl.gz", content) for name in ("train", "validation")}
    answer = client.post("/api/datasets", files=files).json()
    assert (answer["name"], answer["n_train"], answer["columns"][2]["examples"]) == ("train", 3, ["here"])
    assert (answer["proposal"]["task"], answer["proposal"]["metric"]) == ("span", "word_f1")
    damaged = client.post("/api/datasets", files=files | {"train": ("train.jsonl.gz", content[:-9])})
    assert (damaged.status_code, damaged.json()["field"]) == (422, "train")
    assert "train.jsonl.gz: The gzip file ends early or is damaged" in damaged.json()["detail"]


def test_hub_dataset_has_its_published_task(client):
    for name, title, task, metric, n_train in (
        ("stsb", "GLUE STS-B", "regression", "pearson", 5749),
        ("sst5", "SST-5", "classification", "accuracy", 8544),
        ("squad", "SQuAD 1.1", "span", "word_f1", 87599),
        ("cola", "GLUE CoLA", "classification", "matthews", 8551),
    ):
        answer = client.post("/api/datasets/hub", json={"name": name})
        dataset = answer.json()
        assert (answer.status_code, dataset["origin"]) == (201, "hub")
        assert (dataset["name"], dataset["hub_name"], dataset["n_train"]) == (title, name, n_train)
        assert (dataset["proposal"]["task"], dataset["proposal"]["metric"]) == (task, metric)
    assert client.post("/api/datasets/hub", json={"name": "mnli"}).status_code == 422


def upload(client, train=TRAIN, validation=VALIDATION, test=None, names=None, **data):
    parts = {"train": train, "validation": validation, "test": test}
    names = {field: f"{field}.tsv" for field in parts} | (names or {})
    files = {field: (names[field], text.encode()) for field, text in parts.items() if text is not None}
    return client.post("/api/datasets", files=files, data=data)


def rows_of(context, dataset, split):
    row = get_dataset(context, dataset["id"])
    path = context.storage.local_path(getattr(row, f"{split}_sha256"))
    columns = read_columns(path, getattr(row, f"{split}_filename"), ["sentence", "label"])
    return list(zip(*columns.values(), strict=True))


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
    divided = files | {
        "train": ("folds.csv", b"fold,text,label\ntrain,a,0\ntrain,b,1\nvalidation,c,0\nvalidation,d,1\n")
    }
    assert client.post("/datasets", files=divided, data={"split_column": "fold", "split_test": ""}).status_code == 303
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


def upload_labeled(client, validation=LABELED_VALIDATION):
    return upload(client, LABELED_TRAIN, validation).json()


def test_page_shows_classes_lengths_and_trivial_predictor(client):
    dataset = upload_labeled(client)
    text, label = dataset["columns"]
    assert (label["values"], label["train_counts"], label["validation_counts"]) == (["no", "yes"], [10, 30], [5, 5])
    lengths = text["lengths"]
    assert (lengths["n"], sum(lengths["counts"]), lengths["longest"]) == (40, 40, 17)
    assert label["lengths"] is None
    dataset_url = f"/datasets/{dataset['id']}"
    page = " ".join(client.get(dataset_url).text.split())
    sentence = "The trivial predictor scores accuracy <strong>0.500</strong> on the validation rows: it predicts yes"
    assert sentence in page
    assert "the rarest class has 25.0% and the most frequent 75.0%" in page
    assert 'id="figure-classes"' in page
    assert 'id="figure-lengths-1"' in page
    rows = client.get(f"{dataset_url}/figures/classes.csv").text.splitlines()
    assert rows[1:] == ["no,10,0.25,5,0.5", "yes,30,0.75,5,0.5"]
    bins = client.get(f"{dataset_url}/figures/lengths-1.csv").text.splitlines()
    assert bins[0] == "from (characters),to,train rows"
    assert sum(int(row.rsplit(",", 1)[1]) for row in bins[1:]) == 40
    assert client.get(f"{dataset_url}/figures/classes.json").json()["data"][0]["y"] == [0.25, 0.75]


def test_page_handles_unknown_class_single_class_and_scores(client):
    strange = "".join(f"strange words {i}\tother\n" for i in range(10))
    dataset = upload_labeled(client, LABELED_VALIDATION + strange)
    rows = client.get(f"/datasets/{dataset['id']}/figures/classes.csv").text.splitlines()
    assert rows[1:] == ["no,10,0.25,5,0.25", "yes,30,0.75,5,0.25"]
    dataset = upload_labeled(client, HEAD + "".join(f"other words {i}\tyes\n" for i in range(5)))
    page = client.get(f"/datasets/{dataset['id']}").text
    assert "Every validation row is of this class, so no run can score higher" in page
    assert "A useful run scores higher" not in page
    scored = HEAD.replace("label", "score") + "".join(f"text {i}\t{i / 7:.3f}\n" for i in range(40))
    dataset_url = f"/datasets/{upload(client, scored, scored).json()['id']}"
    page = client.get(dataset_url).text
    assert "predicts the mean of the train rows" in page
    assert 'id="figure-classes"' not in page
    assert client.get(f"{dataset_url}/figures/classes.csv").status_code == 404


def test_uncounted_data_set_is_counted_on_request(client, context):
    dataset = upload_labeled(client)
    dataset_url = f"/datasets/{dataset['id']}"
    with context.sessions.begin() as session:
        row = session.get(Dataset, dataset["id"])
        none = {"train_counts": None, "validation_counts": None, "lengths": None}
        row.columns = [column.model_copy(update=none) for column in row.columns]
    page = client.get(dataset_url).text
    assert "did not count classes or text lengths" in page
    assert "trivial predictor" not in page
    assert client.post(f"{dataset_url}/counts").headers["location"] == dataset_url
    assert client.get(f"/api{dataset_url}").json()["columns"] == dataset["columns"]
    assert "Count them now" not in client.get(dataset_url).text


def test_hub_data_set_cannot_be_counted(client):
    dataset_url = f"/datasets/{client.post('/api/datasets/hub', json={'name': 'sst2'}).json()['id']}"
    page = client.get(dataset_url).text
    assert "Count them now" not in page
    refused = client.post(f"{dataset_url}/counts", headers={"accept": "application/json"})
    assert refused.status_code == 409
    assert "are not stored here, so they cannot be counted" in refused.text
    menu = page.partition('<details class="menu"')[2].partition("</details>")[0]
    assert "/delete" in menu
    assert "/delete" not in page.replace(menu, "")


def upload_quoted(client, train=QUOTED, validation=QUOTED, **data):
    return upload(client, train, validation, names={"validation": "dev.tsv"}, **data)


def first_texts(context, dataset_id):
    parts = load_columns(get_dataset(context, dataset_id), CONFIG, context.settings)
    return [part.columns["sentence"][0] for part in parts]


def test_page_names_quoting_and_switches_it(client, context):
    dataset = upload_quoted(client).json()
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
    dataset = upload_quoted(client, validation=PAIRS).json()
    assert dataset["quoting"]["validation"] == "quoted"
    assert first_texts(context, dataset["id"]) == ['When was the "X" period 0?', "Yes."]
    assert describe_rows(get_dataset(context, dataset["id"]))["quoting"] == dataset["quoting"]
    dataset = upload_quoted(client, GLUE, PAIRS).json()
    assert dataset["quoting"] == {"train": "text", "validation": "text"}
    assert first_texts(context, dataset["id"]) == ['He said "no" 0 times', '"Yes."']
    dataset = upload_quoted(client, HEAD + "one\t1\n", HEAD + "two\t1\n").json()
    assert dataset["quoting"] == {}
    assert "Read quotes" not in client.get(f"/datasets/{dataset['id']}").text


@pytest.mark.sandbox
def test_upload_sets_quoting_and_encoding_inherits_it(client, context):
    dataset = upload_quoted(client, PAIRS, PAIRS, quoting="quoted").json()
    assert dataset["quoting"] == {"train": "quoted", "validation": "quoted"}
    assert first_texts(context, dataset["id"]) == ["Yes.", "Yes."]
    refused = upload_quoted(client, GLUE, QUOTED, quoting="quoted").json()
    assert refused["field"] == "quoting"
    assert "train.tsv: Line 2 holds a quote" in refused["detail"]
    assert upload_quoted(client, quoting="both").status_code == 422
    for reading in ("text", "quoted"):
        dataset = upload_quoted(client, quoting=reading).json()
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
    dataset = upload_quoted(client, part, None, **values).json()
    assert first_texts(context, dataset["id"]) == ['a "film" 0', 'a "film" 6']
    page = client.get(f"/datasets/{dataset['id']}").text
    assert "enclose cells" in page
    assert "Read quotes" not in page
    refuse(client, dataset, "Upload the file again")
    dataset = upload_quoted(client, part, None, quoting="text", **values).json()
    assert first_texts(context, dataset["id"]) == ['"a ""film"" 0"', '"a ""film"" 6"']
    drawn = upload_quoted(client, QUOTED, PAIRS, test_fraction="0.25").json()
    assert drawn["quoting"] == {"train": "quoted", "validation": "quoted"}
    assert first_texts(context, drawn["id"])[1] == "Yes."


def refuse(client, dataset, sentence, quoting="text"):
    refused = client.put(f"/api/datasets/{dataset['id']}/quoting", json={"quoting": quoting})
    assert (refused.status_code, refused.json()["field"]) == (409, "quoting")
    assert sentence in refused.json()["detail"]


def test_quoting_is_fixed_once_experiment_used_data_set(client, context):
    dataset = upload_quoted(client).json()
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
