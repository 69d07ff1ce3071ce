"""The form of a search: filled in from the sweep form, launched, and refused with a sentence at the field."""

import re
from html import unescape

import pytest
from sqlalchemy import select

from app.db.models import Experiment

ROWS = "sentence\tlabel\n" + "".join(f"text {i}\t{i % 2}\n" for i in range(20))


@pytest.fixture
def page(client):
    client.post("/api/datasets", files={"train": ("t.tsv", ROWS), "validation": ("v.tsv", ROWS)})

    def page(query=""):
        return client.get(f"/experiments/search{query}").text

    return page


def fields_of(text):
    inputs = re.findall(r'<input type="(?:hidden|text)"[^>]*?name="([^"]+)"[^>]*?value="([^"]*)"', text)
    selects = re.findall(r'<select id="[^"]+" name="([^"]+)".*?<option value="([^"]+)" selected', text, re.DOTALL)
    sent = {}
    for name, value in [*inputs, *selects]:
        sent.setdefault(name, []).append(unescape(value))
    return sent


def test_the_sweep_form_leads_to_it_with_all_that_it_says_and_what_is_filled_in_is_launched(client, page, context):
    assert 'formaction="/experiments/search"' in (page() and client.get("/experiments/new").text)
    told = page("?regularizers=cosreg&max_steps=7&epochs=&batch_size=3&seeds=1,2&checkpoint=best")
    assert "7 steps, batch 3" in told
    sent = fields_of(told)
    assert (sent["search_regularizer"], sent["seeds"], sent["checkpoint"]) == (["cosreg"], ["1,2"], ["best"])
    sent = fields_of(page("?checkpoint=best&seeds=4"))
    changed = {"search_lam_low": "−3", "search_least_size": "0.1", "search_zeta_high": "0.5", "search_prune": "true"}
    answer = client.post("/experiments/search", data=sent | changed)
    assert answer.status_code == 303, answer.text
    with context.sessions() as session:
        experiment = session.scalars(select(Experiment)).one()
    assert answer.headers["location"] == f"/experiments/{experiment.id}"
    wanted = {"lam_low": -3, "least_size": 0.1, "zeta_low": 0.2, "zeta_high": 0.5, "prune": True, "over": False}
    assert {name: getattr(experiment.study, name) for name in wanted} == wanted
    told = client.get(answer.headers["location"]).text
    assert "Search for λ and ζ" in told
    assert "on a log scale, |λ| at least 0.1" in told


def test_what_is_wrong_is_said_at_its_field_and_a_search_has_no_grid(client, page):
    cases = [
        ({"search_lam_low": "much"}, "search_lam_low", "Enter a number, not"),
        ({"search_trials": "0"}, "search_trials", "of at least 1"),
        ({"search_lam_high": "-4"}, "search_lam_low", "Expected Minimum λ below Maximum λ, got -1 and -4."),
        ({"search_prune": "true"}, "search_prune", "Pruning needs evaluations on the selection rows"),
        ({"seeds": "none"}, "seeds", "Enter a whole number, not"),
    ]  # fmt: skip
    for changed, field, sentence in cases:
        answer = client.post("/experiments/search", data=fields_of(page()) | changed, follow_redirects=True)
        assert "checked=true" in str(answer.url)
        at_field = re.search(rf'id="{field}-error">([^<]+)<', answer.text)
        assert at_field is not None, answer.text
        assert sentence in unescape(at_field[1])
    sent = fields_of(page()) | {"grid_field": "batch_size", "grid_values": "8, 16"}
    answer = client.post("/experiments/search", data=sent, follow_redirects=True)
    assert "A search has no grid, and the sweep form ranges over Batch size." in answer.text


def test_what_is_wrong_in_a_file_is_said_above_the_form(client, page):
    cases = [
        ("search: {lam_low: 3}", "search_lam_low", "Expected Minimum λ below Maximum λ, got 3 and 1"),
        ("search: {trails: 3}", "search_trails", "There is no field search.trails; did you mean trials?"),
        ("search: {trials: many}", "search_trials", "Expected search.trials as a whole number"),
        ("search: {prune: true}", "search_prune", "Pruning needs evaluations on the selection rows"),
        ("search: {}\nseeds: [-1]", "seeds", "at least 0"),
    ]  # fmt: skip
    for changed, field, sentence in cases:
        text = unescape(re.search(r'<pre id="way-4-text"[^>]*><code>(.*?)</code>', page(), re.DOTALL)[1])
        document = re.sub(r"\n(search|seeds):[^\n]*(\n[ -][^\n]*)*", "", text)
        sent = {"yaml": f"{document}\n{changed}\n"}
        answer = client.post("/experiments/new/yaml", data=sent, follow_redirects=True)
        assert (answer.status_code, "<h1>Search λ and ζ</h1>" in answer.text) == (422, True)
        assert sentence in unescape(answer.text), (field, answer.text)
