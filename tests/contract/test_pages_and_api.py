import re

from app.routes import api_router, pages_router

# Pages whose record is at another address of the API. All others share the path.
RECORDS = {
    "/": ["/embeddings", "/experiments", "/health"],
    "/access": ["/tokens", "/activity"],
    "/compare": ["/embeddings/{embedding_id}", "/compare/alignments"],
    "/compare/measurements.csv": ["/embeddings/{embedding_id}"],
    "/compare/rows.csv": ["/compare/rows"],
    "/compare/runs": ["/compare/runs/table", "/compare/runs/settings", "/compare/runs/conclusion"],
    "/compare/runs/list": ["/runs"],
    "/compare/runs/table.html": ["/compare/runs/table"],
    "/compare/runs/table.{kind}": ["/compare/runs/table"],
    "/compare/rows/figures/{slug}.{kind}": ["/compare/rows"],
    "/datasets/{dataset_id}/figures/{slug}.{kind}": ["/datasets/{dataset_id}"],
    "/embeddings/{embedding_id}/lab": ["/embeddings/{embedding_id}/postprocessings"],
    "/embeddings/{embedding_id}/lab/figures/{slug}.{kind}": [
        "/embeddings/{embedding_id}/postprocessings/{postprocessing_id}/figures/{slug}"
    ],
    "/embeddings/{embedding_id}/lab/map.safetensors": [
        "/embeddings/{embedding_id}/postprocessings/{postprocessing_id}/map.safetensors"
    ],
    "/embeddings/{embedding_id}/map/figure.html": ["/embeddings/{embedding_id}/figure-data/{slug}"],
    "/embeddings/{embedding_id}/map/plot.json": ["/embeddings/{embedding_id}/figures/{slug}"],
    "/embeddings/{embedding_id}/map/map.parquet": ["/embeddings/{embedding_id}/figure-data/{slug}"],
    "/embeddings/{embedding_id}/measurements.csv": ["/embeddings/{embedding_id}"],
    "/embeddings/{embedding_id}/report.html": ["/embeddings/{embedding_id}", "/embeddings/{embedding_id}/findings"],
    "/experiments/compare": ["/compare/runs/table"],
    "/experiments/new": ["/presets", "/experiments/{experiment_id}/request"],
    "/experiments/search": ["/experiments/{experiment_id}/request"],
    "/experiments/new/yaml": ["/experiments/{experiment_id}/request"],
    "/experiments/import": ["/imports"],
    "/experiments/{experiment_id}/export.zip": ["/experiments/{experiment_id}/export"],
    "/experiments/{experiment_id}/request.yaml": ["/experiments/{experiment_id}/request"],
    "/runs/{run_id}/model.zip": ["/runs/{run_id}/model"],
    "/runs/{run_id}/predictions.csv": ["/runs/{run_id}/predictions"],
    "/queue/status": ["/queue"],
    "/trash/purge": ["/trash"],
    "/trash/{embedding_id}/purge": ["/trash"],
}
# Forms that change a record, at another address or by another method of the API.
ACTIONS = {
    "/compare/rows": "POST /compare/alignments",
    "/datasets/{dataset_id}/quoting": "PUT /datasets/{dataset_id}/quoting",
    "/embeddings/{embedding_id}/curves": "POST /embeddings/{embedding_id}/curves/zeta",
    "/embeddings/{embedding_id}/lab": "POST /embeddings/{embedding_id}/postprocessings",
    "/embeddings/{embedding_id}/lab/embedding": (
        "POST /embeddings/{embedding_id}/postprocessings/{postprocessing_id}/embedding"
    ),
    "/embeddings/{embedding_id}/map/selection": "POST /embeddings/{embedding_id}/selections",
    "/embeddings/{embedding_id}/selection": "PUT /embeddings/{embedding_id}/selection",
    "/embeddings/{embedding_id}/trash": "DELETE /embeddings/{embedding_id}",
    "/embeddings/{row_id}/description": "PATCH /embeddings/{embedding_id}",
    "/encodings/of-dataset": "POST /encodings",
    "/experiments/new/yaml": "POST /experiments/plan",
    "/experiments/search": "POST /studies",
    "/experiments/{experiment_id}/move/{position}": "POST /experiments/{experiment_id}/move",
    "/experiments/{row_id}/description": "PATCH /experiments/{experiment_id}",
    "/runs/{run_id}/move/{position}": "POST /runs/{run_id}/move",
    "/runs/{run_id}/tags": "PATCH /runs/{run_id}",
    "/trash/purge": "DELETE /trash",
    "/trash/{embedding_id}/purge": "DELETE /trash/{embedding_id}",
}
# Recounts an upload that was stored without counts.
PAGES_ONLY = {"/datasets/{dataset_id}/counts"}
NO_RECORD = re.compile(r"/docs.*|.*/description")


def list_routes(router):
    for route in router.routes:
        if included := getattr(route, "original_router", None):
            yield from list_routes(included)
        else:
            yield from ((method, route.path) for method in getattr(route, "methods", None) or ())


API = {(method, path.removeprefix("/api")) for method, path in list_routes(api_router)}
PAGES = set(list_routes(pages_router))


def addresses_of(path):
    if path in RECORDS:
        return RECORDS[path]
    path = re.sub(r"/figures/\{slug\}\.(html|\{kind\})$", "/figures/{slug}", path)
    return [path.removesuffix("/delete")]


def test_every_page_has_an_api_record():
    assert len(PAGES) > 100
    paths = [path for method, path in PAGES if method == "GET" and not NO_RECORD.fullmatch(path)]
    missing = {path: [record for record in addresses_of(path) if ("GET", record) not in API] for path in paths}
    assert {path: records for path, records in missing.items() if records} == {}


def test_every_form_has_an_api_action():
    missing = {}
    for path in {path for method, path in PAGES if method == "POST"} - PAGES_ONLY:
        default = f"DELETE {path.removesuffix('/delete')}" if path.endswith("/delete") else f"POST {path}"
        method, address = ACTIONS.get(path, default).split(" ", 1)
        if (method, address) not in API:
            missing[path] = f"{method} {address}"
    assert missing == {}
