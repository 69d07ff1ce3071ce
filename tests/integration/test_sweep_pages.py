import re
from html import unescape

import pytest
from sqlalchemy import select

from app.db.hub_tasks import HubName
from app.db.models import Experiment
from app.training.presets import PRESETS
from app.training.sweeps import SweepRequest
from tests.cached_rows import make_once

TABLE = "sentence\tlabel\nthe keys are here\t1\nthe keys is here\t0\nthe dogs run\t1\nthe dogs runs\t0\n"


@pytest.fixture
def dataset(client, context, module_cache):
    def upload():
        files = {"train": ("train.tsv", TABLE), "validation": ("validation.tsv", TABLE)}
        return client.post("/datasets", files=files, data={"name": "Tiny"}).headers["location"]

    return make_once(context, module_cache, "dataset", upload)


def sweep(dataset, **changed):
    values = {
        "dataset_id": dataset.rsplit("/", 1)[-1], "text_columns": ["sentence", ""], "label_column": "label",
        "model": "all-MiniLM-L6-v2", "regularizers": ["none", "istar"], "lambdas": "−1, 1", "zetas": "0.2",
        "seeds": "0 1",
    }  # fmt: skip
    return values | changed


def test_dataset_page_shows_task_and_confirms_deletion(client, dataset):
    page = client.get(dataset).text
    for words in ("Tiny", "the keys are here", f"/experiments/new?dataset_id={dataset.rsplit('/', 1)[-1]}"):
        assert words in page
    summary = "classification: sentence → label, 2 classes"
    assert f"Looks like {summary}." in client.get(dataset).text
    page_text = client.get("/datasets").text
    assert f'<td class="wrap">{summary}</td>' in page_text
    assert '<option value="squad">SQuAD 1.1 (span, 87,599 train and 10,570 validation rows)</option>' in page_text
    assert [name for name in HubName if f'<option value="{name}">' not in page_text] == []
    assert "cannot be undone" in client.get(f"{dataset}/delete").text
    assert client.post(f"{dataset}/delete").headers["location"] == "/datasets"
    assert client.get(dataset, headers={"accept": "text/html"}).status_code == 404


def test_sweep_form_counts_launches_and_cancels_runs(client, dataset):
    page = client.get("/experiments/new", params=sweep(dataset)).text
    assert "6 runs" in page
    assert "The λ = 0 baseline was added" in page
    sentence = "Max steps is set, so epochs are ignored."
    assert sentence in client.get("/experiments/new", params={"epochs": "3", "max_steps": "10"}).text
    assert sentence not in client.get("/experiments/new", params={"epochs": "3"}).text
    answer = client.post("/experiments", data=sweep(dataset, epochs="", max_steps="2"))
    assert answer.status_code == 303
    page = answer.headers["location"]
    page_text = client.get(page).text
    for words in ("6 queued", 'aria-current="page">Training<', 'hx-trigger="every 2s"'):
        assert words in page_text
    assert client.post(f"{page}/cancel").headers["location"] == page
    ended = client.get(page).text
    assert "6 cancelled" in ended
    assert 'hx-trigger="every 2s"' not in ended
    assert client.get("/experiments").text.count("6 of 6") == 1


def read_fold_summaries(page):
    return dict(re.findall(r'<summary[^>]*>([^<]+)<span class="sr">: </span><span class="said">([^<]*)</span>', page))


def test_presets_fill_in_fields_and_say_what_differs(client, dataset):
    expected = ["dataset_id", "model", "regularizers", "lambdas", "seeds", "epochs", "max_steps", "learning_rate"]
    for preset in ["", *PRESETS]:
        fields = {"dataset_id": dataset.rsplit("/", 1)[-1], "preset": preset}
        page = client.get("/experiments/new", params=fields).text
        form = re.search(r'<form id="sweep".*?</form>', page, re.DOTALL)[0]
        while (folded := re.sub(r"<details(?:(?!<details).)*?</details>", "", form, flags=re.DOTALL)) != form:
            form = folded
        visible_fields = re.findall(r'<(?:input|select|textarea)(?![^>]*type="hidden")[^>]* name="([^"]+)"', form)
        assert [*dict.fromkeys(visible_fields)] == expected
        folded_words = read_fold_summaries(page)
        assert folded_words["Classification"] == "sentence → label, by Accuracy"
        assert folded_words["Rows and machine"].startswith("Max length (tokens): ")
        assert folded_words["Name"] == "after model and data set"
        assert preset or folded_words["Shrinkage covariance"].endswith("ζ values: 0.2")
        assert not preset or ("Not ready" not in page and PRESETS[preset].title in page), preset
    chosen = {"preset": "istar-2-tuning", "dataset_id": dataset.rsplit("/", 1)[-1]}
    page = client.get("/experiments/new", params=chosen).text
    assert 'value="-5, -3, -1, 0.5, 1, 3, 5"' in page
    assert 'value="0.2, 0.4, 0.6, 0.8"' in page
    assert "29 runs" in page
    assert "Algorithm 1, the poster and the code" in page
    assert "No worker here has a GPU, so we filled in float32" in page
    assert '<option value="fp32" selected>' in page
    changed = client.get("/experiments/new", params=sweep(dataset, preset="istar-2-tuning", lambdas="1")).text
    assert 'id="lambdas" name="lambdas" aria-describedby="lambdas-help" value="1"' in changed
    assert "Algorithm 1, the poster and the code" in changed


def post_invalid(client, data):
    """Post an invalid form and return the page it redirects to, so that reloading posts nothing."""
    answer = client.post("/experiments", data=data)
    assert answer.status_code == 303, answer.text
    assert answer.headers["location"].endswith("&checked=true")
    return client.get(answer.headers["location"]).text


def test_invalid_fields_keep_values_and_open_their_folds(client, dataset):
    page = post_invalid(client, sweep(dataset, lambdas="abc", seeds="3, 4"))
    assert 'aria-describedby="lambdas-help lambdas-error" aria-invalid="true"' in page
    assert "Enter a number, not &#39;abc&#39;." in page
    assert 'value="3, 4"' in page
    cases = [
        ("zetas", "2"), ("zetas", ""), ("seeds", "-1"), ("lambdas", "nan"), ("epochs", "0"), ("learning_rate", "fast"),
        ("token_fraction", "0"),
    ]  # fmt: skip
    for field, text in cases:
        page = post_invalid(client, sweep(dataset, **{"epochs": "1", field: text}))
        assert f'id="{field}-error"' in page
    cases = [
        ({"fixed_istar": "1"}, 'Extra penalties" aria-describedby="fixed_regularizers-help fixed_regularizers-error"',
         "fixed_regularizers"),
        ({"regularizers": ["x"]}, 'aria-describedby="regularizers-help regularizers-error" aria-invalid="true"',
         "regularizers"),
        ({"text_columns": ["x", "sentence"]}, 'aria-describedby="second_text-help text_columns-error"', "text_columns"),
    ]  # fmt: skip
    for change, location, error in cases:
        page = post_invalid(client, sweep(dataset, **change))
        assert location in page
        assert f'id="{error}-error"' in page
    answer = client.post("/experiments", data=sweep(dataset, seeds="x" * 10_000))
    assert (answer.status_code, 'id="seeds-error"' in answer.text) == (422, True)
    wrong = {"batch_size": "0", "warmup": "2", "shrinkage_points": "1", "fixed_cosreg": "much", "patience": "-1"}
    rows = {"grid_field": ["accumulation", "epochs"], "grid_values": ["1, 2", "x"]}
    page = post_invalid(client, sweep(dataset, **wrong, **rows))
    alert = re.search(r'role="alert"[^>]*>(.*?)</div>', page, re.DOTALL)[1]
    assert "6 fields need a change." in alert
    for field in (*wrong, "grid-2"):
        assert f'<a href="#{field}">' in alert
        assert page.count(f' id="{field}"') == 1
    assert page.count(re.search(r'id="patience-error">(.*?<)', page)[1]) == 2, "at the top and at its field"
    for field, value in wrong.items():
        assert re.search(rf'id="{field}"[^>]* aria-invalid="true"', page), field
        assert f'id="{field}-error"' in page
        assert f'value="{value}"' in page
    assert page.count("autofocus") == page.count('role="alert" tabindex="-1" autofocus') == 1
    folds = re.findall(r'<details class="fold" (open)?>\s*<summary id="fold-([a-z-]+)"', page)
    opened = {slug for is_open, slug in folds if is_open}
    assert opened == {"optimizer-and-schedule", "shrinkage-covariance", "fixed", "checkpoint-and-early-stopping"}
    assert "Enter a number of at least 1, not 0." in alert
    again = client.post("/api/experiments", json={"batch_size": 0, "warmup": 2, "model": "m"}).json()
    assert (again["field"], again["detail"]) == tuple(again["errors"][0][name] for name in ("field", "detail"))
    sentences = {problem["field"]: problem["detail"] for problem in again["errors"]}
    assert sentences["batch_size"] == "Expected batch_size of at least 1, got 0."
    assert {"warmup", "dataset_id", "text_columns", "label_column"} <= set(sentences)


def test_form_shows_options_of_choices_and_survives_nonsense(client, dataset):
    page = client.get("/experiments/new", params=sweep(dataset)).text
    assert 'name="shrinkage_points"' in page
    assert 'name="entropy_bars"' not in page
    page = client.get("/experiments/new", params=sweep(dataset, regularizers=["none", "entropy", "spectrum"])).text
    assert 'name="entropy_bars"' in page
    assert 'name="shrinkage_points"' not in page
    assert 'name="zetas"' not in page
    page = client.get("/experiments/new", params=sweep(dataset, regularizers=["none", "spectrum"])).text
    assert 'name="layers"' not in page
    page = client.get("/experiments/new", params=sweep(dataset, regularizers=["none"], fixed_entropy="0.1")).text
    assert 'name="entropy_bars"' in page
    assert read_fold_summaries(page)["Extra penalties"] == "persistent entropy with λ = 0.1"
    rows = {"grid_field": ["learning_rate", "batch_size"], "grid_values": ["1e-5, 3e-5", "8"]}
    page = client.get("/experiments/new", params=sweep(dataset, **rows)).text
    assert page.count('name="grid_field"') == 3
    for words in ('value="1e-5, 3e-5"', "2 rates × (1 baseline + I-STAR × 2 λ) × 2 seeds.", "12 runs"):
        assert words in page
    chosen = {"regularizers": ["none", "entropy"], "entropy_by_label": "true"}
    page = client.get("/experiments/new", params=sweep(dataset, task="regression", **chosen)).text
    assert '<input type="hidden" name="entropy_by_label" value="true">' in page
    page = client.get("/experiments/new", params=sweep(dataset, **chosen)).text
    assert "Entropy by label: each class of a batch" in page
    assert '<option value="true" selected>each class of a batch</option>' in page
    page = client.get("/experiments/new", params=sweep(dataset, task="span", metric="accuracy")).text
    for words in ('<option value="word_f1" selected>', 'name="stride"', "question and the context"):
        assert words in page
    left_out = {"dataset_id", "text_columns", "label_column", "grid", "fixed_regularizers"}
    fields = SweepRequest.model_fields.keys() - left_out
    nonsense = dict.fromkeys(fields, "nonsense") | {"regularizers": ["istar", "entropy", "nonsense"]}
    answer = client.get("/experiments/new", params=sweep(dataset, **nonsense))
    assert (answer.status_code, "Not ready" in answer.text) == (200, True)
    page = client.get("/experiments/new", params=sweep(dataset, preset="nonsense")).text
    assert "Start from a paper’s settings" in page


def test_grid_errors_are_shown_at_their_row(client, dataset):
    rows = {"grid_field": ["epochs", ""], "grid_values": ["1, x", ""]}
    page = post_invalid(client, sweep(dataset, **rows))
    assert 'id="grid-error">Enter a whole number, not &#39;x&#39;.' in page
    assert 'value="1, x"' in page
    rows = {"grid_field": ["batch_size", "warmup"], "grid_values": ["8, 16", "0, 2"]}
    page = post_invalid(client, sweep(dataset, **rows))
    assert page.count("aria-invalid") == 1
    assert 'value="0, 2" autocomplete="off" aria-invalid="true" aria-describedby="grid-error"' in page
    for field, values in [("epochs", "3, default"), ("entropy_bars", "all")]:
        page = post_invalid(client, sweep(dataset, grid_field=field, grid_values=values))
        assert '<fieldset id="grid" aria-describedby="grid-help grid-error" aria-invalid="true">' in page
        assert page.count("aria-invalid") == 1
    page = post_invalid(client, sweep(dataset, grid_field="fixed_regularizers", grid_values="cosreg"))
    assert "Choose an option for the values cosreg." in page


def test_dataset_without_task_cannot_launch_and_hub_fills_form(client):
    files = dict.fromkeys(("train", "validation"), ("texts.tsv", "sentence\tidx\na\t0\nb\t1\n"))
    page = client.post("/datasets", files=files).headers["location"]
    page_text = client.get(page).text
    assert "No text with something to predict was found. A sweep needs one or two columns of text" in page_text
    assert "A sweep starts from this" not in page_text
    assert "no task: sentence, idx" in client.get("/datasets").text
    page = client.post("/datasets/hub", data={"hub_name": "squad"}).headers["location"]
    assert "Looks like span: question + context → answers." in client.get(page).text
    form = client.get(f"/experiments/new?dataset_id={page.rsplit('/', 1)[-1]}").text
    assert read_fold_summaries(form)["Span"].startswith("question and context → answers, by ")


@pytest.fixture
def page(client):
    texts = "sentence\tlabel\n" + "".join(f"text {i}\t{i % 2}\n" for i in range(20))
    client.post("/api/datasets", files={"train": ("t.tsv", texts), "validation": ("v.tsv", texts)})

    def page(query=""):
        return client.get(f"/experiments/search{query}").text

    return page


def read_fields(text):
    inputs = re.findall(r'<input type="(?:hidden|text)"[^>]*?name="([^"]+)"[^>]*?value="([^"]*)"', text)
    selects = re.findall(r'<select id="[^"]+" name="([^"]+)".*?<option value="([^"]+)" selected', text, re.DOTALL)
    sent = {}
    for name, value in [*inputs, *selects]:
        sent.setdefault(name, []).append(unescape(value))
    return sent


def test_sweep_form_leads_to_search_form_and_launches_it(client, page, context):
    assert 'formaction="/experiments/search"' in (page() and client.get("/experiments/new").text)
    page_text = page("?regularizers=cosreg&max_steps=7&epochs=&batch_size=3&seeds=1,2&checkpoint=best")
    assert "7 steps, batch 3" in page_text
    sent = read_fields(page_text)
    assert (sent["search_regularizer"], sent["seeds"], sent["checkpoint"]) == (["cosreg"], ["1,2"], ["best"])
    sent = read_fields(page("?checkpoint=best&seeds=4"))
    changed = {"search_lam_low": "−3", "search_least_size": "0.1", "search_zeta_high": "0.5", "search_prune": "true"}
    answer = client.post("/experiments/search", data=sent | changed)
    assert answer.status_code == 303, answer.text
    with context.sessions() as session:
        experiment = session.scalars(select(Experiment)).one()
    assert answer.headers["location"] == f"/experiments/{experiment.id}"
    expected = {"lam_low": -3, "least_size": 0.1, "zeta_low": 0.2, "zeta_high": 0.5, "prune": True, "over": False}
    assert {name: getattr(experiment.study, name) for name in expected} == expected
    page_text = client.get(answer.headers["location"], params={"tab": "result"}).text
    assert "The first point appears here" in page_text
    assert "Search for λ and ζ" in page_text
    assert "on a log scale, |λ| at least 0.1" in page_text


def test_search_errors_are_shown_at_their_field(client, page):
    cases = [
        ({"search_lam_low": "much"}, "search_lam_low", "Enter a number, not"),
        ({"search_trials": "0"}, "search_trials", "of at least 1"),
        ({"search_lam_high": "-4"}, "search_lam_low", "Expected Minimum λ below Maximum λ, got -1 and -4."),
        ({"search_prune": "true"}, "search_prune", "Pruning needs evaluations on the selection rows"),
        ({"seeds": "none"}, "seeds", "Enter a whole number, not"),
    ]  # fmt: skip
    for changed, field, sentence in cases:
        answer = client.post("/experiments/search", data=read_fields(page()) | changed, follow_redirects=True)
        assert "checked=true" in str(answer.url)
        at_field = re.search(rf'id="{field}-error">([^<]+)<', answer.text)
        assert at_field is not None, answer.text
        assert sentence in unescape(at_field[1])
    sent = read_fields(page()) | {"grid_field": "batch_size", "grid_values": "8, 16"}
    answer = client.post("/experiments/search", data=sent, follow_redirects=True)
    assert "A search has no grid, and the sweep form ranges over Batch size." in answer.text
    cases = [
        ("search: {lam_low: 3}", "search_lam_low", "Expected Minimum λ below Maximum λ, got 3 and 1"),
        ("search: {trails: 3}", "search_trails", "There is no field search.trails; did you mean trials?"),
        ("search: {}\nseeds: [-1]", "seeds", "at least 0"),
    ]  # fmt: skip
    for changed, field, sentence in cases:
        text = unescape(re.search(r'<pre id="way-4-text"[^>]*><code>(.*?)</code>', page(), re.DOTALL)[1])
        document = re.sub(r"\n(search|seeds):[^\n]*(\n[ -][^\n]*)*", "", text)
        sent = {"yaml": f"{document}\n{changed}\n"}
        answer = client.post("/experiments/new/yaml", data=sent, follow_redirects=True)
        assert (answer.status_code, "<h1>Search λ and ζ</h1>" in answer.text) == (422, True)
        assert sentence in unescape(answer.text), (field, answer.text)
