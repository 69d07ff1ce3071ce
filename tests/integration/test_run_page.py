import re

import pytest
from sqlalchemy import func, select

from app.db.models import Experiment, Opening, Run, RunStatus, RunTag, Step
from app.training.experiments import get_experiment, get_run
from app.training.run_actions import tag_run
from tests.factories import add_experiment, run_row
from tests.tabs import every_tab

SHARED = {"model": "tiny-bert", "text_columns": ["text"], "label_column": "label", "label_names": ["a", "b"]}
SELECTION = {
    "split": "held_out", "n": 6, "metric": "accuracy", "best_step": 8, "best": 0.9,
    "history": [[4, 0.5], [8, 0.9], [12, 0.7]], "stopped_early": False,
}  # fmt: skip
RESULTS = {
    "metrics": {"accuracy": 0.9}, "loss": 0.3, "n_validation": 40, "tokens": 200, "points": 400, "zeta": 0,
    "layers": [0.1, 0.2], "reference": {"zeta": 0.75, "layers": [0.1, 0.2]},
}  # fmt: skip


def add(context, changes=None, **columns):
    config = SHARED | (changes or {})
    plain = {"status": RunStatus.QUEUED, "performance": None, "isoscore_star": None}
    run = run_row(config=config, **plain | columns)
    experiment_id = add_experiment(context, run, name="e", config=config)
    return run.id, experiment_id


def test_tabs_show_failures_notes_hashes_and_logs(client, context):
    waiting, _ = add(context)
    assert tabs_of(client, waiting) == ["training", "settings"]
    finished, _ = add(context, status=RunStatus.FINISHED, performance=0.9, results=RESULTS, log="Ended.")
    assert tabs_of(client, finished) == ["training", "results", "log", "settings"]
    page = client.get(f"/runs/{finished}?tab=results").text
    assert ("<dt>trivial predictor</dt>" in page, 'id="figure-loss"' in page) == (False, False)
    assert 'id="figure-loss"' in client.get(f"/runs/{finished}?tab=nowhere").text, "the first tab"
    run_id, _ = add(context, status=RunStatus.RUNNING)
    page = client.get(f"/runs/{run_id}?measure=isoscore_unbiased").text
    assert f'href="/runs/{run_id}?tab=settings&amp;measure=isoscore_unbiased"' in page
    assert f'hx-get="/runs/{run_id}?tab=training&amp;measure=isoscore_unbiased"' in page
    assert '<input type="hidden" name="tab" value="training">' in page
    log = 'Traceback (most recent call last):\n  File "<loss>"\nArithmeticError: two'
    run_id, _ = add(context, status=RunStatus.FAILED, error="ArithmeticError: two", log=log)
    page = client.get(f"/runs/{run_id}").text
    assert "<strong>An unexpected failure.</strong> ArithmeticError: two" in page
    assert f'<a href="/runs/{run_id}?tab=log" aria-current="page">Log</a>' in page
    assert "File &#34;&lt;loss&gt;&#34;\nArithmeticError: two</pre>" in page
    assert client.get(f"/api/runs/{run_id}").json()["log"] == log
    run_id, _ = add(context, notes=["Memory ran out with 16 rows per batch."])
    assert "<p>Memory ran out with 16 rows per batch.</p>" in client.get(f"/runs/{run_id}").text
    assert client.get(f"/api/runs/{run_id}").json()["notes"] == ["Memory ran out with 16 rows per batch."]
    run_id, _ = add(
        context, environment={"model": {"revision": "main", "weights_sha256": {"a.safetensors": "0f", "b": "1e"}}}
    )
    assert (
        'weights sha256 <span class="mono">a.safetensors 0f, b 1e</span>' in every_tab(client, f"/runs/{run_id}").text
    )
    run_id, _ = add(context, status=RunStatus.RUNNING, log="step 40 of 300: loss 0.5, penalty 0.1")
    assert "step 40 of 300: loss 0.5" not in client.get(f"/runs/{run_id}").text
    assert "step 40 of 300: loss 0.5" in client.get(f"/runs/{run_id}?tab=log").text


def tabs_of(client, run_id):
    page = client.get(f"/runs/{run_id}").text
    return re.findall(rf'href="/runs/{run_id}\?tab=(\w+)"', page)


def test_weight_choice_is_described_for_run_and_experiment(client, context):
    cases = [
        ({"checkpoint": "best"}, {},
         "These are the weights of step 8, the best of 3 evaluations: accuracy 0.900. Evaluated on a tenth of the "
         "training rows, held out (n = 6)."),
        ({"checkpoint": "last", "patience": 1, "selection": "validation"},
         {"split": "validation", "stopped_early": True},
         "Stopped early, at step 12. These are the last weights. The best evaluation was at step 8: accuracy 0.900. "
         "Evaluated on the validation rows, so the reported performance is optimistic (n = 6)."),
        ({"checkpoint": "best"}, {"best_step": None, "best": None},
         "Accuracy was undefined at every evaluation, so these are the last weights."),
    ]  # fmt: skip
    for changes, selection, sentences in cases:
        results = RESULTS | {"selection": SELECTION | selection}
        run_id, _ = add(context, changes, status=RunStatus.FINISHED, performance=0.9, results=results)
        words = " ".join(every_tab(client, f"/runs/{run_id}").text.split())
        assert sentences.casefold() in words.casefold()
    cases = [
        ({"checkpoint": "best", "patience": 2},
         "Each run is evaluated with its best weights, chosen on a tenth of the training rows, held out. A run "
         "stops after 2 evaluations without a better one."),
        ({"patience": 1, "selection": "validation"},
         "A run stops after 1 evaluation without a better one, on the validation rows, so the "
         "reported performance is optimistic."),
    ]  # fmt: skip
    for changes, sentence in cases:
        _, experiment_id = add(context, changes)
        assert sentence in " ".join(every_tab(client, f"/experiments/{experiment_id}").text.split())
    _, experiment_id = add(context)
    assert "best weights" not in every_tab(client, f"/experiments/{experiment_id}").text


def row(name, *cells):
    return f'<th scope="row">{name}</th>' + "".join(f'<td class="n">{cell}</td>' for cell in cells)


def test_protocols_counts_and_f1_are_described(client, context):
    reference = {"zeta": 0.75, "pooling": "last", "n": 40, "layers": [0.1, None], "layer_reasons": [None, "Why."]}
    by_layer = {"isoscore_star": {"values": [0.3, 0.4], "reasons": [None, None]}}
    results = {name: value for name, value in RESULTS.items() if name != "layers"}
    results |= {"by_layer": by_layer, "by_layer_n": {"isoscore_star": 200}, "reference": reference}
    run_id, _ = add(context, status=RunStatus.FINISHED, performance=0.9, results=results)
    page = " ".join(every_tab(client, f"/runs/{run_id}").text.split())
    assert "and the reference’s own, last tokens at ζ = 0.75, n = 40 texts</caption>" in page
    assert row("last tokens", "0.100", "–", "40") in page
    assert row("all tokens", "0.300", "0.400", "200") in page
    assert "IsoScore★ of last tokens is undefined in layer 2: Why." in page
    reference = {"reference": {"zeta": 0.75, "layers": [0.1, 0.1], "pooling": "last", "n": 40, "layer_reasons": []}}
    run_id, _ = add(context, status=RunStatus.FINISHED, performance=0.9, results=RESULTS | reference)
    page = every_tab(client, f"/runs/{run_id}").text
    assert "shrinks the covariance of last tokens toward that of all tokens in the layer. If last tokens" in page
    assert "only the token covariance is left, and both rows agree." in page
    unfinished, _ = add(context)
    assert "both rows agree" not in every_tab(client, f"/runs/{unfinished}").text
    for measure, n in [("isoscore_star", "n = 1,536 tokens."), ("isoscore_unbiased", "n = 64 mean vectors, one of")]:
        run_id, _ = add(context, environment={"probe": {"tokens": 1536, "texts": 64}})
        page = client.get(f"/runs/{run_id}?measure={measure}").text
        assert f"Every measurement uses the same 64 validation rows: {n}" in page
    cases = [
        ({"f1_average": "binary", "f1_positive": "b"}, ["<dt>F1 is</dt><dd>of the label b</dd>"]),
        ({"f1_average": "binary"}, ["<dt>F1 is</dt><dd>of the second label</dd>"]),
        ({"f1_average": "macro"}, ["<dt>F1 is</dt><dd>the mean over labels, each counted the same</dd>"]),
        ({"n_questions": 20, "n_windows": 1400, "n_train_left_out": 4, "n_questions_cut": 0},
         ["<dt>validation questions</dt><dd>20</dd>", "<dt>windows they are read in</dt><dd>1,400</dd>",
          "<dt>questions left out of training, their answer not in the text</dt><dd>4</dd>",
          "<dt>questions cut, too long for a window</dt><dd>0</dd>"]),
    ]  # fmt: skip
    for details, facts in cases:
        run_id, _ = add(context, status=RunStatus.FINISHED, performance=0.9, results=RESULTS | details)
        page = every_tab(client, f"/runs/{run_id}").text
        assert [fact for fact in facts if fact not in page] == []


def test_configuration_is_compared_to_its_baseline(client, context):
    run_id, _ = add(context)
    assert "<mark>" not in every_tab(client, f"/runs/{run_id}").text
    run_id, experiment_id = add(context, {"batch_size": 8, "learning_rate": 2e-5, "train_rows": 8})
    with context.sessions.begin() as session:
        run = session.get(Run, run_id)
        plain = run.config.dump() | {"regularizer": "none", "lam": 0.0, "batch_size": 16}
        columns = {"experiment_id": experiment_id, "lam": 0, "zeta": 0.2}
        session.add(Run(position=1, config=plain, regularizer="none", seed=1, **columns))
        session.add(Run(position=2, config=plain | {"batch_size": 4}, regularizer="none", seed=0, **columns))
    page = " ".join(every_tab(client, f"/runs/{run_id}").text.split())
    for fact in (
        "<dt>Regularizer</dt><dd><mark>I-STAR</mark> <small>baseline: none</small></dd>",
        "<dt>λ</dt><dd><mark>1</mark> <small>baseline: 0</small></dd>",
        "<dt>Batch size</dt><dd><mark>8 rows</mark> <small>baseline: 4 rows</small></dd>",
        "<dt>Learning rate</dt><dd>2e−5</dd>",
        "<dt>Layers</dt><dd>as in the paper</dd>",
        "<dt>Schedule</dt><dd>constant</dd>",
        "<dt>Classes</dt><dd>a, b</dd>",
        "<dt>Train rows</dt><dd>8 rows</dd>",
        "<dt>Validation rows</dt><dd>all rows</dd>",
        "<dt>Accumulation</dt><dd>1 batch a step</dd>",
        "<dt>Gradient checkpointing</dt><dd>no</dd>",
    ):
        assert fact in page, fact
    assert "<dt>Steps</dt>" not in page, "epochs are given instead"
    run_id, experiment_id = add(context)
    page = every_tab(client, f"/runs/{run_id}").text
    assert "Highlighted values" not in page
    assert {"Shrinkage points", "ζ", "Shrinkage refresh"} < set(re.findall("<dt>(.*?)</dt>", page))
    unread = {"Shrinkage momentum", "Refresh every N steps", "Stride", "Selection rows", "Evaluate every N steps"}
    assert unread & set(re.findall("<dt>(.*?)</dt>", page)) == set()
    with context.sessions.begin() as session:
        plain = session.get(Run, run_id).config.dump() | {"regularizer": "none", "lam": 0.0, "patience": 2}
        columns = {"experiment_id": experiment_id, "lam": 0, "zeta": 0.2, "seed": 0}
        session.add(baseline := Run(position=1, config=plain, regularizer="none", **columns))
        session.flush()
        other_url = f"/runs/{baseline.id}"
    facts = set(re.findall("<dt>(.*?)</dt>", every_tab(client, other_url).text))
    assert {"Selection rows", "Evaluate every N steps", "Patience"} < facts
    assert facts & {"ζ", "Shrinkage points", "Shrinkage refresh", "Layers", "Entropy bars"} == set()
    assert "Highlighted values" in every_tab(client, f"/runs/{run_id}").text


def test_each_state_has_its_buttons_and_cancel_all_is_confirmed(client, context):
    cases = [
        ("queued", ["pause", "cancel"]), ("running", ["pause", "cancel"]), ("paused", ["resume", "cancel"]),
        ("failed", ["retry"]), ("cancelled", ["retry"]), ("finished", []), ("streaming", ["cancel"]), ("pruned", []),
    ]  # fmt: skip
    for status, buttons in cases:
        run_id, experiment_id = add(context, status=RunStatus(status), error="Why.")
        page = client.get(f"/runs/{run_id}").text
        assert re.findall(rf'action="/runs/{run_id}/(\w+)"', page) == [*buttons, "tags"]
        listed = client.get(f"/experiments/{experiment_id}?tab=runs").text
        assert re.findall(rf'action="/runs/{run_id}/(\w+)"', listed) == [
            button for button in buttons if button != "retry"
        ]
        words = {"pruned": "pruned, others did better", "running": "worker lost"}
        assert words.get(status, status) in page
    cases = [("queued", ["pause", "cancel"], False), ("paused", ["resume", "cancel"], False), ("finished", [], True)]
    for status, buttons, deletable in cases:
        _, experiment_id = add(context, status=RunStatus(status))
        page = client.get(f"/experiments/{experiment_id}").text
        pressed = re.findall(rf'method="post" action="/experiments/{experiment_id}/(\w+)"', page)
        assert [button for button in pressed if button != "description"] == buttons
        assert (f'href="/experiments/{experiment_id}/delete"' in page) is deletable
        if status != "finished":
            assert f">1 {status}</span>" in page
    _, experiment_id = add(context, status=RunStatus.QUEUED)
    action = f"/experiments/{experiment_id}/cancel"
    for path in (f"/experiments/{experiment_id}", "/queue"):
        form = re.search(rf'<form [^>]*action="{action}".*?</form>', client.get(path).text, re.DOTALL)[0]
        assert f'hx-post="{action}"' in form
        assert 'hx-confirm="Cancel all of e? Runs that have not ended stop for good;' in form
        assert '<button class="link bad"' in form


def test_failure_reasons_are_counted_with_links(client, context):
    run_id, experiment_id = add(context, status=RunStatus.FAILED, error="Out of memory.")
    experiment_url = f"/experiments/{experiment_id}"

    def notice():
        return " ".join(
            client.get(experiment_url).text.split('<div class="notice bad" role="alert">')[1].split("</div>")[0].split()
        )

    first = f'Out of memory. <a href="/runs/{run_id}">I-STAR, λ = 1, seed 0</a></p>'
    assert notice() == f"<p><strong>Every run failed.</strong> {first}"
    with context.sessions.begin() as session:
        config = session.get(Run, run_id).config
        more_runs = [(RunStatus.FINISHED, None), (RunStatus.FAILED, "Out of memory.")]
        more_runs += [(RunStatus.FAILED, f"Reason {i}.") for i in range(4)]
        for seed, (status, error) in enumerate(more_runs, 1):
            columns = {"regularizer": "istar", "lam": 1, "zeta": 0.2, "seed": seed, "config": config}
            session.add(Run(position=seed, experiment_id=experiment_id, status=status, error=error, **columns))
    assert notice().startswith(f"<p><strong>6 runs failed.</strong> {first}<p>Reason 0. <a")
    link = f'<a href="{experiment_url}?tab=runs">in the table of runs</a>'
    assert notice().endswith(f"<p>2 further reasons: {link}</p>")


@pytest.fixture
def runs(context):
    failed = {"status": RunStatus.FAILED, "error": "x"}
    rows = run_row(status=RunStatus.QUEUED), run_row(seed=1, **failed), run_row(seed=2), run_row(seed=3)
    experiment_id = add_experiment(context, *rows, name="sweep")
    return experiment_id, [run.id for run in get_experiment(context, experiment_id).runs]


def act(client, action, *ids, **fields):
    return client.post("/runs/actions", data={"run": list(ids), "action": action} | fields, follow_redirects=False)


def test_runs_are_cancelled_and_retried_with_local_redirects(client, runs, context):
    for query in ["", "q=lam", "experiment=/evil.example", "experiment=a/../b"]:
        for action in ("cancel", "retry"):
            location = act(client, action, runs[1][0], query=query).headers["location"]
            assert location.partition("?")[0] == "/compare/runs/list"
    experiment_id, (waiting, failed, *_) = runs
    response = act(client, "cancel", waiting, query=f"q=lam>0&experiment={experiment_id}")
    assert response.headers["location"] == f"/experiments/{experiment_id}?tab=runs&q=lam%3E0"
    act(client, "retry", failed)
    assert [get_run(context, run_id).status for run_id in (waiting, failed)] == [RunStatus.CANCELLED, RunStatus.QUEUED]


@pytest.mark.both_databases
def test_runs_are_searched_by_tag(client, context, runs):
    experiment_id, (first, second, *_) = runs
    tag_run(context, first, ["odd"])
    tag_run(context, second, ["Old", "odd"])
    assert "odd" in client.get("/api/tags").json()
    for q, count in (("tag:OD", 2), ("tag=odd", 2), ("tag=od", 0), ("tag:none", 2), ("-tag:odd", 2)):
        assert len(client.get(f"/api/experiments/{experiment_id}/runs", params={"q": q}).json()) == count, q
    assert client.get("/api/runs", params={"sort": "tag"}).json()[0]["tags"]
    table = client.get(f"/experiments/{experiment_id}?tab=runs").text
    assert 'href="/compare/runs/list?q=tag%3D%22odd%22"' in table


def test_page_replaces_and_refuses_tags_and_names_refused_runs(client, runs, context):
    run_id = runs[1][0]
    client.post(f"/runs/{run_id}/tags", data={"tags": "a, b"})
    assert client.get(f"/api/runs/{run_id}").json()["tags"] == ["a", "b"]
    assert 'value="a, b"' in client.get(f"/runs/{run_id}").text
    client.post(f"/runs/{run_id}/tags", data={"tags": ""})
    assert client.get(f"/api/runs/{run_id}").json()["tags"] == []
    response = client.post(f"/runs/{run_id}/tags", data={"tags": "x" * 41})
    assert (response.status_code, 'id="tags-error"' in response.text) == (422, True)
    assert f'value="{"x" * 41}"' in response.text
    response = client.patch(f"/api/runs/{run_id}", json={"tags": ["x" * 41]})
    assert (response.status_code, response.json()["field"]) == (422, "tags")
    _, (waiting, _, finished, _) = runs
    response = act(client, "cancel", waiting, finished, "gone")
    assert (response.status_code, "1 done, 2 refused." in response.text) == (409, True)
    assert "I-STAR, λ = 1, seed 2, of sweep: Only a run that has not ended can be cancelled" in response.text
    assert "gone: There is no run" in response.text
    assert get_run(context, waiting).status is RunStatus.CANCELLED


@pytest.mark.both_databases
def test_deletion_asks_first_and_removes_run_with_its_rows(client, context, runs):
    experiment_id, (*_, third, last) = runs
    tag_run(context, last, ["odd"])
    with context.sessions.begin() as session:
        session.add(Step(run_id=last, step=1, task_loss=0.5))
    assert "cannot be undone" in act(client, "delete", last).text
    assert act(client, "delete", last, confirmed="yes").status_code == 303
    assert client.get(f"/api/runs/{last}").status_code == 404
    with context.sessions() as session:
        assert [session.scalar(select(func.count()).select_from(table)) for table in (RunTag, Step)] == [0, 0]
    assert client.delete(f"/api/runs/{third}").status_code == 204
    for tab in ("result", "training", "runs"):
        assert client.get(f"/experiments/{experiment_id}?tab={tab}").status_code == 200
    assert client.get(f"/experiments/{experiment_id}/export.zip").status_code == 200


def test_needed_run_is_not_deleted(client, context, runs):
    experiment_id, (waiting, failed, *finished) = runs

    def refusal(run_id):
        answer = client.delete(f"/api/runs/{run_id}")
        assert answer.status_code == 409
        return answer.json()["detail"]

    assert refusal(waiting) == "This run is queued. Cancel it before you delete it."
    with context.sessions.begin() as session:
        opening = {"experiment_name": "sweep", "number": 1, "kind": "run", "position": 0, "label": "x", "by": "me"}
        session.add(Opening(experiment_id=experiment_id, rows_sha256="0" * 64, opened_before=0, **opening))
    assert refusal(failed) == "The test scores of its experiment are open, so its runs cannot be deleted."
    with context.sessions.begin() as session:
        session.query(Opening).delete()
        session.query(Run).filter(Run.id.in_([waiting, *finished])).delete()
    assert refusal(failed) == "This is the only run of its experiment. Delete the experiment instead."
    with context.sessions() as session:
        assert session.get(Experiment, experiment_id) is not None


def test_runs_table_has_checkboxes_and_api_lists_refused_runs(client, runs, context):
    experiment_id, ids = runs
    for path in (f"/experiments/{experiment_id}?tab=runs", "/compare/runs/list"):
        page = client.get(path).text
        assert re.findall(r'form="bulk-runs" name="run" value="(\w+)"', page) == ids
        actions = page.partition('id="bulk-runs"')[2].partition("</form>")[0]
        expected = [("cancel", "Cancel"), ("retry", "Retry"), ("delete", "Delete")]
        assert re.findall(r'name="action" value="(\w+)">(\w+)', actions) == expected
    _, (waiting, failed, finished, _) = runs
    request = {"action": "cancel", "ids": [waiting, finished, waiting]}
    result = client.post("/api/runs/actions", json=request).json()
    assert (result["done"], [row["id"] for row in result["refused"]]) == ([waiting], [finished])
    unknown = client.post("/api/runs/actions", json={"action": "star", "ids": [failed]})
    assert (unknown.status_code, unknown.json()["field"]) == (422, "action")
    assert "Actions are: cancel, retry, delete." in unknown.json()["detail"]
    assert client.post("/api/runs/actions", json={"action": "retry", "ids": []}).status_code == 422
