import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.results.logged_runs import MEASURES
from tests.archives import export, send

PLAIN = {
    "experiment": "mine", "dataset": "reviews", "model": "my-bert", "task": "classification", "metric": "accuracy",
    "seed": 0,
}  # fmt: skip
NUMBERS = st.sampled_from([0.0, 1e-323, 1e-150, 1e-101, 1e-100, 0.5, 1.0, 1e6, 1e100, 1.1e100, 1e200]).flatmap(
    lambda size: st.sampled_from([size, -size])
) | st.floats(0, 1)
INTEGERS = st.sampled_from([0, 1, 2**31 - 1, 2**31, 2**53 - 1, 2**53, 2**53 + 1, 2**60, 10**30])
WORDS = st.sampled_from(["a", "hidden", "learning_rate", "batch_size", "layers"])
LINES = st.text(max_size=9) | st.sampled_from([" ", "x" * 1000, "\0", "unknown", "="])
NAMES = LINES.map(lambda text: f"m{text}")
SCALARS = st.booleans() | NUMBERS | INTEGERS | LINES
VALUES = st.lists(st.none() | NUMBERS, max_size=3)
BEGUN = st.fixed_dictionaries({}, optional={
    "model": NAMES, "lam": NUMBERS, "zeta": NUMBERS, "seed": INTEGERS,
    "regularizer": st.sampled_from(["none", "istar", "cosreg"]),
    "settings": st.dictionaries(WORDS, SCALARS | st.lists(SCALARS, max_size=2), max_size=2),
    "environment": st.dictionaries(WORDS, LINES, max_size=1),
    "probe": st.fixed_dictionaries({"tokens": INTEGERS, "texts": INTEGERS}),
})  # fmt: skip
STEPS = st.fixed_dictionaries({"step": INTEGERS}, optional={
    "task_loss": NUMBERS, "penalty": NUMBERS, "reason": LINES,
    "layers": st.dictionaries(st.sampled_from(MEASURES), VALUES, max_size=1),
})  # fmt: skip
ENDED = st.fixed_dictionaries({}, optional={
    "metrics": st.dictionaries(st.sampled_from(["accuracy", "matthews"]), NUMBERS), "isoscore_star": NUMBERS,
    "n_validation": INTEGERS, "error": LINES, "notes": st.lists(LINES, max_size=1),
    "by_layer": st.dictionaries(st.sampled_from(MEASURES),
                                st.fixed_dictionaries({"values": VALUES}, optional={"n": INTEGERS}), max_size=1),
    "results": st.dictionaries(WORDS, SCALARS, max_size=1),
})  # fmt: skip
ACCEPTED = {200, 201}


def log_or_plain(client, path, random_values, plain):
    """Post random values, or plain ones if those are refused with a sentence."""
    answer = client.post(path, json=random_values)
    assert answer.status_code in {*ACCEPTED, 413, 422}, answer.text
    if answer.status_code not in ACCEPTED:
        assert answer.json()["detail"]
        answer = client.post(path, json=plain)
        assert answer.status_code in ACCEPTED, answer.text
    return answer.json()


@pytest.mark.long
@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))  # on either database
@given(begun=st.lists(BEGUN, min_size=1, max_size=2), steps=st.lists(STEPS, max_size=2), ended=ENDED)
def test_logged_runs_can_be_imported_elsewhere(client, other_client, begun, steps, ended):
    ours = twin = None
    try:
        for random_values in begun:
            run = log_or_plain(client, "/api/runs", PLAIN | random_values, PLAIN)
            ours = run["experiment_id"]
            for step in steps:
                log_or_plain(client, f"/api/runs/{run['id']}/steps", {"steps": [step]}, {"steps": []})
            log_or_plain(client, f"/api/runs/{run['id']}/finish", ended, {})
        answer = send(other_client, export(client, ours))
        assert answer.is_success, answer.detail
        twin = answer.json()["id"]
        runs, copies = (
            api.get(f"/api/experiments/{row}").json() for api, row in ((client, ours), (other_client, twin))
        )
        assert copies["grid"] == runs["grid"]
        for run, copy in zip(runs["runs"], copies["runs"], strict=True):
            first, second = (
                client.get(f"/api/runs/{run['id']}").json(),
                other_client.get(f"/api/runs/{copy['id']}").json(),
            )
            for name in ("config", "steps", "results", "performance", "isoscore_star", "status", "notes"):
                assert second[name] == first[name], name
    finally:
        for api, row in ((client, ours), (other_client, twin)):
            if row is not None:
                assert api.delete(f"/api/experiments/{row}").status_code == 204
