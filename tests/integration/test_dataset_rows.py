from app.db.models import Dataset

HEAD = "sentence\tlabel\n"
TRAIN = HEAD + "".join(f"{'word ' * (1 + i % 3)}{i}\t{'yes' if i % 4 else 'no'}\n" for i in range(40))
VALIDATION = HEAD + "".join(f"other words {i}\t{'yes' if i % 2 else 'no'}\n" for i in range(10))


def upload(client, train=TRAIN, validation=VALIDATION):
    files = {"train": ("train.tsv", train.encode()), "validation": ("dev.tsv", validation.encode())}
    return client.post("/api/datasets", files=files).json()


def test_page_shows_classes_lengths_and_trivial_predictor(client):
    dataset = upload(client)
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
    dataset = upload(client, validation=VALIDATION + "".join(f"strange words {i}\tother\n" for i in range(10)))
    rows = client.get(f"/datasets/{dataset['id']}/figures/classes.csv").text.splitlines()
    assert rows[1:] == ["no,10,0.25,5,0.25", "yes,30,0.75,5,0.25"]
    dataset = upload(client, validation=HEAD + "".join(f"other words {i}\tyes\n" for i in range(5)))
    page = client.get(f"/datasets/{dataset['id']}").text
    assert "Every validation row is of this class, so no run can score higher" in page
    assert "A useful run scores higher" not in page
    scored = HEAD.replace("label", "score") + "".join(f"text {i}\t{i / 7:.3f}\n" for i in range(40))
    dataset_url = f"/datasets/{upload(client, scored, scored)['id']}"
    page = client.get(dataset_url).text
    assert "predicts the mean of the train rows" in page
    assert 'id="figure-classes"' not in page
    assert client.get(f"{dataset_url}/figures/classes.csv").status_code == 404


def test_uncounted_data_set_is_counted_on_request(client, context):
    dataset = upload(client)
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
