"""No route reveals a sealed test score; archives are unpacked."""

import io
import itertools
import json
import re
import zipfile

import pytest

from app import routes
from app.results.pages.experiments import TABS
from tests.contract.test_pages_and_api import list_routes
from tests.sealed import PLANTED, add_sealed, run_ids

SEALED = re.compile(r"(?<!\d)(?:0?\.731\d*|73\.1(?!\d*\s?[kMGT]?B))")
"""A planted score as a fraction or in percent, but not in a timestamp or a disk size."""
SPLITS = ("validation", "test")
MISSING_IDS = ["0" * 32]
KINDS = ("json", "csv", "html")


@pytest.fixture
def experiment_id(context):
    return add_sealed(context)


@pytest.fixture
def get_all(client, context, experiment_id):
    """Iterate over (path, answer) of every GET route, with each id that fits its path."""
    run = run_ids(context, experiment_id)[0]
    listed = client.get(f"/api/experiments/{experiment_id}/figures").json()
    slugs = {*listed} | {"isotropy", "lambda", "loss", "activation", "layers", "parallel"}
    path_values = {
        "experiment_id": [experiment_id],
        "run_id": [run],
        "slug": sorted(slugs),
        "kind": KINDS,
        "format": KINDS,
    }

    dataset = client.get(f"/api/experiments/{experiment_id}").json()["dataset_id"]

    def iterate_answers():
        for path in (f"/datasets/{dataset}", f"/api/datasets/{dataset}"):
            yield path, client.get(path)
        for template in paths():
            if "/playground" in template:  # clouds, not experiments
                continue
            is_ours = "{experiment_id}" in template or "{run_id}" in template
            names = re.findall(r"{(\w+)(?::\w+)?}", template)
            for values in itertools.product(
                *(path_values.get(name, MISSING_IDS) if is_ours else MISSING_IDS for name in names)
            ):
                path = template
                for name, value in zip(names, values, strict=True):
                    path = re.sub(rf"{{{name}(:\w+)?}}", value, path)
                for query in ("", *queries(path, experiment_id)):
                    yield path + query, client.get(path + query)

    return iterate_answers


def paths():
    for prefix, router in (("", routes.pages_router), ("/api", routes.api_router)):
        yield from (prefix + path.removeprefix(prefix) for method, path in list_routes(router) if method == "GET")


def queries(path, experiment_id):
    if path.endswith("/runs") or path.startswith("/compare/runs") or path.startswith("/api/compare/runs"):
        yield f"?q=experiment%3D{experiment_id}"
        yield "?q=accuracy%3E0.7"
        yield "?sort=-performance"
    if path in {"/experiments", "/api/experiments"}:
        yield "?q=accuracy%3E0.7"
    if path == f"/experiments/{experiment_id}":
        yield from (f"?tab={tab.slug}" for tab in TABS)
    if path.startswith("/api/runs/"):
        yield from (f"?split={split}" for split in SPLITS)
        yield "?split=test&format=csv"


def texts_of(answer):
    """Yield the text of an answer, or of each member of an archive that is not marked as sealed."""
    if answer.headers.get("content-type") != "application/octet-stream" and not answer.content.startswith(b"PK"):
        yield answer.text
        return
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        for name in archive.namelist():
            if not name.startswith("sealed/"):
                yield archive.read(name).decode()


def test_no_route_reveals_a_sealed_score(get_all, caplog):
    caplog.set_level("DEBUG")
    answers = [(path, answer) for path, answer in get_all()]
    assert sum(answer.status_code == 200 for _, answer in answers) > 60
    for path, answer in answers:
        assert answer.status_code < 500, path
        for text in texts_of(answer):
            assert SEALED.search(text) is None, path
    assert SEALED.search(caplog.text) is None


@pytest.mark.long
def test_opened_scores_appear_only_in_opening_and_its_page(client, get_all, experiment_id):
    client.post(f"/api/experiments/{experiment_id}/opening", json={"choose": "lambda = 0"})
    leaks = {path for path, answer in get_all() if any(map(SEALED.search, texts_of(answer)))}
    page = f"/experiments/{experiment_id}"
    assert leaks == {page, f"{page}?tab=result", f"/api{page}/opening"}


def test_actions_and_searches_reveal_no_test_score(client, experiment_id, context):
    assert client.get("/api/runs", params={"q": "accuracy>0.7"}).json() == []
    assert len(client.get("/api/runs", params={"q": "accuracy>0.4"}).json()) == 6
    assert json.dumps(PLANTED) not in client.get("/api/runs").text
    run = run_ids(context, experiment_id)[0]
    for path in ("cancel", "pause", "resume"):
        assert SEALED.search(client.post(f"/api/experiments/{experiment_id}/{path}").text) is None
    for path in ("cancel", "pause", "resume", "retry"):
        assert SEALED.search(client.post(f"/api/runs/{run}/{path}").text) is None
    refused = client.post(f"/api/experiments/{experiment_id}/opening", json={"choose": "nothing"})
    assert SEALED.search(refused.text) is None
