import io
import re

from sqlalchemy import select

from app.db.models import Embedding, EmbeddingStatus, FigureData, PostProcessing, ResultStatus, StoredFile, ZetaCurve
from tests.reports import HOSTILE, PROJECTION, store


def add_dependent_rows(context, embedding_id, other_id):
    """Add what depends on a selection: curves, a post-processing with its state, and figure data."""
    with context.ledger.recording(stored := context.ledger.store(io.BytesIO(b"a state"), 100)) as session:
        columns = {"key": "k", "method": "centring", "parameters": {}, "status": ResultStatus.READY}
        session.add(PostProcessing(embedding_id=embedding_id, state_sha256=stored.sha256, **columns))
        session.add(ZetaCurve(embedding_id=embedding_id, source="embedding", source_id=other_id))
        session.add(ZetaCurve(embedding_id=other_id, source="embedding", source_id=embedding_id))
    store(context, embedding_id, projection=PROJECTION)
    return stored.sha256


def test_new_selection_drops_results_of_the_former(client, context, work, measured, second):
    state, path = add_dependent_rows(context, measured, second), f"/api/embeddings/{measured}"
    assert client.put(f"{path}/selection?commit=auto", json={"vectors": ["nothing"]}).status_code == 422
    before = client.get(path).json()
    assert (before["status"], len(before["measurements"]) > 20) == ("ready", True)
    with context.sessions() as session:
        assert len(session.scalars(select(PostProcessing)).all()) == 1
    choice = {"vectors": ["x0", "x1", "x2"], "names": "word", "labels": "other"}
    answer = client.put(f"{path}/selection?commit=auto", json=choice)
    assert (answer.status_code, answer.json()["status"], answer.json()["measurements"]) == (200, "inspecting", [])
    with context.sessions() as session:
        assert session.scalars(select(PostProcessing)).all() == []
        assert session.scalars(select(FigureData).where(FigureData.embedding_id == measured)).all() == []
        assert {row.embedding_id for row in session.scalars(select(ZetaCurve))} == {second}
        assert {row.source for row in session.scalars(select(ZetaCurve))} == {"identity", "sample"}
        assert session.get(StoredFile, state) is None
    assert not context.storage.exists(state)
    work()
    embedding = client.get(path).json()
    assert (embedding["status"], embedding["d"], embedding["selection"]["labels"]) == ("ready", 3, "other")
    spectrum = next(row for row in embedding["measurements"] if row["measure"] == "spectrum")
    assert len(spectrum["detail"]["eigenvalues"]) == 3


def test_new_selection_without_commit_is_a_draft(client, work, measured):
    path = f"/api/embeddings/{measured}"
    choice = {"vectors": ["x0", "x1"], "names": None, "labels": "side"}
    client.put(f"{path}/selection", json=choice)
    busy = client.put(f"{path}/selection", json=choice)
    sentence = f"{HOSTILE} is inspecting: choose from it when a worker has finished."
    assert (busy.status_code, busy.json()["detail"]) == (409, sentence)
    work()
    draft = client.get(path).json()
    assert (draft["status"], draft["d"], draft["measurements"], draft["n_left_out"]) == ("draft", 2, [], None)
    assert client.post(f"{path}/commit").status_code == 200
    work()
    assert client.get(path).json()["status"] == "ready"
    created = client.post("/api/embeddings", files={"file": ("ragged.csv", b"1,2,3\n4,5\n")}).json()
    work()
    answer = client.put(f"/api/embeddings/{created['id']}/selection", json={"vectors": ["x"]})
    sentence = "ragged.csv could not be read, so there is nothing to choose from. Upload it again."
    assert (answer.status_code, answer.json()["detail"]) == (409, sentence)


def test_report_form_measures_again_also_after_a_failure(client, work, measured, context):
    before = client.get(f"/api/embeddings/{measured}").json()
    same = {"chosen": "true", "vectors": before["selection"]["vectors"], "names": "word", "labels": "side"}
    assert client.post(f"/embeddings/{measured}/commit", data=same).status_code == 303
    work()
    after = client.get(f"/api/embeddings/{measured}").json()
    assert after["measurements"] == before["measurements"]
    assert after["measured_at"] > before["measured_at"]
    with context.sessions.begin() as session:
        row = session.get_one(Embedding, measured)
        row.status, row.error = EmbeddingStatus.FAILED, "Measuring it was given up."
    page = client.get(f"/embeddings/{measured}").text
    assert "Measuring it was given up." in page
    assert "Measure anew" in page
    chosen = {"chosen": "true", "vectors": ["x0", "x1"], "labels": "side"}
    assert client.post(f"/embeddings/{measured}/commit", data=chosen).status_code == 303
    work()
    embedding = client.get(f"/api/embeddings/{measured}").json()
    assert (embedding["status"], embedding["d"], embedding["error"]) == ("ready", 2, None)


def test_refused_selection_stays_in_form_with_its_error(client, context, measured):
    answer = client.post(f"/embeddings/{measured}/commit", data={"chosen": "true", "vectors": ["x0"], "labels": "none"})
    assert answer.status_code == 422
    assert 'id="labels-error"' in answer.text
    assert f'href="/embeddings/{measured}?tab=details"' in answer.text, "beside the report"
    with context.sessions.begin() as session:
        row = session.get_one(Embedding, measured)
        columns = {item["name"]: item for item in row.inspection["annotations"]}
        columns["word"] = columns["word"] | {"n_distinct": 1001}
        row.inspection = row.inspection | {"annotations": list(columns.values())}
    too_many = "disabled>word (more than 1,000 different, too many for labels)</option>"
    assert too_many in client.get(f"/embeddings/{measured}?tab=details").text
    form = {"chosen": "true", "vectors": ["x0", "x2"], "names": "other", "labels": "word"}
    for way in ("selection", "commit"):
        answer = client.post(f"/embeddings/{measured}/{way}", data=form)
        assert answer.status_code == 422
        form_html = " ".join(answer.text.partition('<form id="choose"')[2].partition("</form>")[0].split())
        assert re.findall(r"<option selected>(x\d)", form_html) == ["x0", "x2"]
        assert re.findall(r'<option value="(\w+)" selected', form_html) == ["other", "word", "cosine"]
        assert re.findall(r'<select [^>]*name="(\w+)"[^>]* autofocus', form_html) == ["labels"]
        assert too_many not in form_html
        assert re.search(r"<details [^>]*open>\s*<summary>Choose again", answer.text)
    assert client.get(f"/api/embeddings/{measured}").json()["selection"]["labels"] == "side"
