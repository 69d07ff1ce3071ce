import html
import re
from datetime import UTC, datetime, timedelta
from hashlib import sha256

import pytest
from sqlalchemy import func, select

from app.db import job_kinds, models
from app.db.job_kinds import Job
from app.db.models import EmbeddingOrigin, EmbeddingStatus, Pooling
from app.db.types import utcnow
from app.embeddings import trash
from app.embeddings.encoding_layers import list_defined_measures
from app.embeddings.encodings import delete_encoding
from app.embeddings.library import find_adjacent_layers
from app.embeddings.service import get_embedding
from app.embeddings.trash import Purged, empty_trash
from tests.factories import add_embedding, add_encoding, store
from tests.queries import count_rows, queries_of

YESTERDAY = datetime(2026, 1, 1, tzinfo=UTC)
SHARED, UNSHARED, STATE, USED = b"s" * 1000, b"o" * 300, b"t" * 70, b"u" * 5000
DEFAULT = ["BERT cased", "GloVe", "a draft"]
MATCHES = {
    "bert": ["BERT cased"], "GLOVE": ["GloVe"], "100%25": ["GloVe"], "%25": ["GloVe"], "x_y": ["BERT cased"],
    "xay": [], "_": ["BERT cased", "GloVe"], "paris cased": ["BERT cased"], "paris words": [], "words": ["GloVe"],
    "/": [], "'": [],
}  # fmt: skip
SORTED = {
    "name": ["a draft", "BERT cased", "GloVe"], "-name": ["GloVe", "BERT cased", "a draft"],
    "created": ["a draft", "GloVe", "BERT cased"], "isoscore": DEFAULT, "-isoscore": ["GloVe", "BERT cased", "a draft"],
    "-mean_cosine": DEFAULT, "-n": ["GloVe", "BERT cased", "a draft"], "d": DEFAULT,
}  # fmt: skip
REFUSED = [
    ({"name": " \t"}, "name", "The name has no visible characters. Enter a name."),
    ({"name": "x" * 201}, "name",
     "Expected a name of at most 200 characters, got 201. Shorten it, or write it into the notes."),
    ({"notes": "x" * 10_001}, "notes", "Expected notes of at most 10,000 characters, got 10,001. Shorten them."),
    ({"tags": ["a,b"]}, "tags", "Tags cannot contain commas, because commas separate tags. Got 'a,b'."),
]  # fmt: skip


def names_in(client, query=""):
    answer = client.get(f"/api/embeddings?{query}")
    names = [row["name"] for row in answer.json()]
    assert int(answer.headers["x-total-count"]) >= len(names)
    return names


def names_on(client, path):
    page = client.get(path)
    assert page.status_code == 200, page.text
    return [html.unescape(name) for name in re.findall(r'<th scope="row".*?<a href="[^"]*">(.*?)</a>', page.text)]


@pytest.fixture
def stored_embeddings(context):
    """Five embeddings, the last two not in the default list: one in the trash, one a layer."""
    add_embedding(context, "GloVe", {"isoscore": 0.2, "mean_cosine": 0.5}, ["Words"], filename="glove_100%.txt", n=900)
    bert = {"isoscore": 0.1, "mean_cosine": 0.7}
    add_embedding(context, "BERT cased", bert, ["BERT", "x_y"], notes="Été à\nParis", d=4)
    add_embedding(context, "a draft", status=EmbeddingStatus.DRAFT, created_at=YESTERDAY)
    add_embedding(context, "thrown away, BERT", trashed_at=YESTERDAY)
    layer = {"encoding_id": add_encoding(context), "layer": 3, "pooling": Pooling.MEAN}
    add_embedding(context, "BERT layer 3", origin=EmbeddingOrigin.ENCODED, **layer)


@pytest.mark.usefixtures("stored_embeddings")
class TestSearch:
    @pytest.mark.both_databases
    def test_search_words_match_name_file_notes_or_tags(self, client, context):
        for q, names in MATCHES.items():
            assert sorted(names_in(client, f"q={q}")) == names, q
            assert sorted(names_on(client, f"/embeddings?q={q}")) == names, q
        with context.sessions() as session:
            folds_accents = session.scalar(select(func.lower("É"))) == "é"  # PostgreSQL in locale C does not
        for q in ("ÉTÉ À", "été À"):
            assert names_in(client, f"q={q}") == (["BERT cased"] if folds_accents else [])
        assert folds_accents or context.settings.database.startswith("postgresql")
        for tag in ("words", "WORDS"):
            assert names_in(client, f"tag={tag}") == ["GloVe"]
            assert names_in(client, f"tag={tag[:3]}") == []

    @pytest.mark.both_databases
    def test_sorting_puts_missing_values_last(self, client):
        for sort, names in SORTED.items():
            assert names_in(client, f"sort={sort}") == names, sort
            assert names_on(client, f"/embeddings?sort={sort}") == names, sort

    def test_trash_and_layers_are_listed_on_request(self, client):
        assert names_in(client) == names_on(client, "/embeddings") == DEFAULT
        assert names_in(client, "layers=true")[0] == "BERT layer 3"
        assert names_in(client, "origin=encoded") == ["BERT layer 3"]
        assert names_in(client, "origin=upload&q=bert") == ["BERT cased"]
        page = client.get("/embeddings?q=bert").text
        assert "1 layer of encodings is not listed." in page
        assert 'href="/embeddings?q=bert&amp;layers=true"' in page
        assert names_in(client, "trashed=true") == ["thrown away, BERT"]

    def test_headings_show_and_reverse_sorting(self, client):
        page = " ".join(client.get("/embeddings?q=e&sort=-isoscore_unbiased").text.split())
        assert 'aria-sort="descending"> <a href="/embeddings?q=e&amp;sort=isoscore_unbiased">IsoScore</a>' in page
        assert '<a href="/embeddings?q=e&amp;sort=name">Name</a>' in page
        assert page.count('aria-sort="none"') == 5
        page = client.get("/embeddings").text
        assert page.count('type="checkbox" name="id"') == 3
        assert '<form class="bare" method="get" action="/compare">' in page
        page = " ".join(client.get("/embeddings?q=none here").text.split())
        assert 'No embedding found that mentions none and here. <a href="/embeddings">Show all</a>' in page

    def test_invalid_query_is_rejected_with_link_without_it(self, client):
        for query in ("sort=size", "origin=elsewhere", "page=0", f"q={'x' * 201}", "layers=maybe"):
            assert client.get(f"/embeddings?{query}", headers={"accept": "text/html"}).status_code == 422, query
        page = client.get("/embeddings?q=a%26b&sort=foo", headers={"accept": "text/html"}).text
        assert "Expected sort as " in page
        assert "got &#39;foo&#39;." in page
        assert '<a href="/embeddings?q=a%26b">Open the page without it</a>' in page
        page = client.get("/embeddings?page=0", headers={"accept": "text/html"}).text
        assert "Expected page of at least 1, got 0." in page
        assert '<a href="/embeddings">Open the page without it</a>' in page
        for query in ("limit=0", "limit=501", "offset=-1", "offset=99999999999999999999", "sort=x"):
            answer = client.get(f"/api/embeddings?{query}")
            assert (answer.status_code, answer.json()["field"]) == (422, query.partition("=")[0])


def test_api_returns_scores_tags_and_provenance(client, context):
    source = add_embedding(context, "raw", {"isoscore": 0.5, "mean_cosine": 0.25}, ["BERT", "b"])
    derived = add_embedding(context, "made", tags=["a", "bert"], source_id=source, provenance={"method": "centring"})
    encoding = add_encoding(context)
    layer = add_embedding(context, "layer", encoding_id=encoding, layer=3, pooling=Pooling.MEAN)
    listed = {row["name"]: row for row in client.get("/api/embeddings").json()}
    assert (listed["raw"]["isoscore"], listed["raw"]["mean_cosine"]) == (0.5, 0.25)
    assert (listed["made"]["isoscore"], listed["made"]["mean_cosine"]) == (None, None)
    assert [row.lower() for row in client.get("/api/tags").json()] == ["a", "b", "bert"]
    keys = ("provenance", "source_id", "encoding_id", "layer", "pooling")
    origins = [[client.get(f"/api/embeddings/{row}").json()[key] for key in keys] for row in (source, derived, layer)]
    derived_origin = [{"method": "centring"}, source, None, None, None]
    assert origins == [[None] * 5, derived_origin, [None, None, encoding, 3, "mean"]]


def test_number_of_queries_is_constant_and_pages_have_fifty(client, context):
    paths = ("/embeddings?q=cloud&tag=t", "/api/embeddings?limit=500", "/trash", "/")

    def queries(path):
        selects = queries_of(context, lambda: client.get(path).raise_for_status())
        return len([statement for statement, _ in selects if statement.startswith("SELECT")])

    def fill(numbers):
        for number in numbers:
            for gone in ({}, {"trashed_at": YESTERDAY}):
                tags = ["t", f"t{number}"]
                add_embedding(context, f"cloud {number:02}", {"isoscore": 0.5}, tags, [bytes([number])], **gone)

    fill(range(3))
    small = [queries(path) for path in paths]
    fill(range(3, 60))
    assert [queries(path) for path in paths] == small
    assert 2 <= min(small) <= max(small) <= 20
    first = " ".join(client.get("/embeddings?sort=name&q=cloud").text.split())
    assert "60 embeddings, 1 to 50 shown." in first
    assert 'rel="next" href="/embeddings?q=cloud&amp;sort=name&amp;page=2"' in first
    for page in (2, 99999999999999999999):
        assert names_on(client, f"/embeddings?sort=name&page={page}") == [f"cloud {number}" for number in range(50, 60)]
    answer = client.get("/api/embeddings?sort=name&limit=3&offset=58")
    assert ([row["name"] for row in answer.json()], answer.headers["x-total-count"]) == (["cloud 58", "cloud 59"], "60")


class TestDescription:
    def test_invalid_description_is_rejected_at_its_field(self, client, context):
        path = f"/api/embeddings/{add_embedding(context, 'old')}"
        for change, field, sentence in REFUSED:
            answer = client.patch(path, json={"notes": "new"} | change)
            refused = answer.json()
            assert (answer.status_code, refused["detail"], refused["field"]) == (422, sentence, field)
        assert (client.get(path).json()["name"], client.get(path).json()["notes"]) == ("old", "")
        assert client.patch("/api/embeddings/none", json={"name": "x"}).status_code == 404
        answer = client.patch(path, json={"color": "red"})
        assert (answer.status_code, answer.json()["field"]) == (422, "color")

    @pytest.mark.both_databases
    def test_unstorable_characters_are_dropped(self, client, context):
        path = f"/api/embeddings/{add_embedding(context)}"
        body = '{"name": "a\\u0000b", "notes": "a\\u0000b\\ud800\\tc", "tags": ["a\\u0000b", "\\ud800"]}'
        changed = client.patch(path, content=body, headers={"Content-Type": "application/json"}).json()
        assert (changed["name"], changed["notes"], changed["tags"]) == ("a b", "a b \tc", ["a b"])

    def test_form_suggests_tags_and_page_escapes_description(self, client, context):
        page = f"/embeddings/{add_embedding(context, 'old', tags=['former'])}"
        add_embedding(context, "other", tags=["Known"])
        assert '<option value="Known">' in client.get(f"{page}/description").text
        assert 'value="old"' in client.get(f"{page}/description").text
        form = {"name": "New", "tags": "BERT, <b>, bert", "notes": "one <b>\ntwo"}
        assert client.post(f"{page}/description", data=form).headers["location"] == page
        page_text = client.get(page).text
        assert "one &lt;b&gt;\ntwo</p>" in page_text
        assert 'href="/embeddings?tag=BERT"' in page_text
        assert 'href="/embeddings?tag=%3Cb%3E"' in page_text
        assert "former" not in page_text


def move_to_trash(client, *ids):
    assert [client.delete(f"/api/embeddings/{embedding_id}").status_code for embedding_id in ids] == [204] * len(ids)


def exist(context, *contents):
    return [context.storage.exists(sha256(content).hexdigest()) for content in contents]


@pytest.fixture
def three(context):
    """Two embeddings that share a file, one with a fitted map; a third shares its file with a data set."""
    first = add_embedding(context, "first", {"isoscore": 0.5}, ["t"], [SHARED, UNSHARED])
    second = add_embedding(context, "second", contents=[SHARED])
    third = add_embedding(context, "third", contents=[USED])
    store(context, STATE)
    hashes = [sha256(content).hexdigest() for content in (STATE, USED)]
    with context.sessions.begin() as session:
        session.add(models.StoredFile(sha256=hashes[0], size_bytes=len(STATE)))
        session.flush()
        trial = {"embedding_id": first, "key": "k", "method": "center", "parameters": {}}
        session.add(models.PostProcessing(**trial, state_sha256=hashes[0]))
        session.add(models.Dataset(name="d", origin=models.DatasetOrigin.UPLOAD, train_sha256=hashes[1], columns=[]))
    return [first, second, third]


def test_trashed_embedding_is_listed_only_in_trash(client, context, three):
    move_to_trash(client, three[0])
    assert [embedding_id["name"] for embedding_id in client.get("/api/embeddings").json()] == ["third", "second"]
    for path in ("/", "/embeddings", "/embeddings?q=first", "/queue", f"/embeddings/{three[1]}", "/compare"):
        assert ">first<" not in client.get(path).text, path
        assert f'value="{three[0]}"' not in client.get(path).text, path
    page_text = client.get("/api/trash").json()
    assert [row["embedding"]["name"] for row in page_text["rows"]] == ["first"]
    assert page_text["rows"][0]["embedding"]["trashed_at"] is not None
    assert count_rows(context, models.Measurement) == 1
    when = client.get(f"/api/embeddings/{three[0]}").json()["trashed_at"]
    move_to_trash(client, three[0])
    assert client.get(f"/api/embeddings/{three[0]}").json()["trashed_at"] == when
    for _ in range(2):
        assert client.post(f"/api/embeddings/{three[0]}/restore").json()["trashed_at"] is None
    assert len(client.get("/api/embeddings").json()) == 3


def test_sizes_count_files_that_nobody_else_needs(client, context, three):
    move_to_trash(client, *three)
    trash = client.get("/api/trash").json()
    frees = {row["embedding"]["name"]: row["frees_bytes"] for row in trash["rows"]}
    assert frees == {"first": 300 + 70, "second": 0, "third": 0}
    assert trash["frees_bytes"] == 1000 + 300 + 70
    assert client.delete("/api/trash").json() == {"embeddings": 3, "freed_bytes": 1370}
    assert exist(context, SHARED, UNSHARED, STATE, USED) == [False, False, False, True]
    assert count_rows(context, models.Embedding) == count_rows(context, models.PostProcessing) == 0
    assert count_rows(context, models.StoredFile) == 1
    assert client.get("/api/trash").json() == {"rows": [], "total": 0, "frees_bytes": 0}


def test_only_trash_is_purged_and_reports_freed_bytes(client, context, three):
    for embedding_id in (three[0], "none"):
        answer = client.delete(f"/api/trash/{embedding_id}")
        sentence = f"There is no embedding '{embedding_id}' in the trash. Only embeddings in the trash can be purged."
        assert (answer.status_code, answer.json()["detail"]) == (404, sentence)
    assert client.delete("/api/trash").json() == {"embeddings": 0, "freed_bytes": 0}
    assert count_rows(context, models.Embedding) == 3
    move_to_trash(client, three[1], three[0])
    assert client.delete(f"/api/trash/{three[0]}").json() == {"embeddings": 1, "freed_bytes": 370}
    assert exist(context, SHARED, UNSHARED, STATE) == [True, False, False]
    assert client.delete(f"/api/trash/{three[1]}").json() == {"embeddings": 1, "freed_bytes": 1000}
    assert client.get(f"/api/embeddings/{three[1]}").status_code == 404


@pytest.mark.both_databases
def test_purging_cancels_jobs(client, context):
    kinds = {models.EmbeddingStatus.INSPECTING: job_kinds.INSPECT, models.EmbeddingStatus.MAKING: job_kinds.MAKE}
    jobs = [Job(kind, add_embedding(context, status=status)) for status, kind in kinds.items()]
    measuring, other_id = add_embedding(context, status=models.EmbeddingStatus.MEASURING), add_embedding(context)
    jobs.append(Job(job_kinds.MEASURE, measuring))
    curve = models.ZetaCurve(embedding_id=other_id, source="embedding", source_id=measuring)
    method = models.PostProcessing(embedding_id=measuring, key="k", method="center", parameters={})
    with context.sessions.begin() as session:
        session.add_all([curve, method])
    jobs += [Job(job_kinds.CURVE, curve.id), Job(job_kinds.POSTPROCESS, method.id)]
    kept_job = Job(job_kinds.MEASURE, other_id)
    for job in [*jobs, kept_job]:
        context.queue.enqueue(job)
    move_to_trash(client, *(job.row_id for job in jobs[:3]))
    assert len(context.queue.list_active()) == 6
    client.delete("/api/trash")
    assert context.queue.list_active() == {kept_job.workflow_id}


def test_trashed_embedding_refuses_actions(client, context):
    draft = add_embedding(context, "draft", status=models.EmbeddingStatus.DRAFT, inspection={"parts": []})
    ready, other_id = add_embedding(context, "ready"), add_embedding(context, "other")
    trial = models.PostProcessing(
        embedding_id=ready, key="k", method="center", parameters={}, status=models.ResultStatus.READY
    )
    with context.sessions.begin() as session:
        session.add(trial)
    move_to_trash(client, draft, ready)
    requests = [
        client.post(f"/api/embeddings/{draft}/commit"),
        client.put(f"/api/embeddings/{draft}/selection", json={"vectors": "array"}),
        client.patch(f"/api/embeddings/{draft}", json={"name": "x"}),
        client.post(f"/api/embeddings/{ready}/curves/zeta", json={"source_id": other_id}),
        client.post(f"/api/embeddings/{other_id}/curves/zeta", json={"source_id": ready}),
        client.get(f"/api/compare?id={other_id}&id={ready}"),
        client.post(f"/api/embeddings/{ready}/postprocessings", json={"method": "centring"}),
        client.post(f"/api/embeddings/{ready}/postprocessings/{trial.id}/embedding"),
    ]
    assert [answer.status_code for answer in requests] == [409] * 8
    assert requests[0].json()["detail"] == "draft is in the trash. Restore it first."
    assert {answer.json()["detail"] for answer in requests[3:]} == {"ready is in the trash. Restore it first."}


@pytest.mark.both_databases
def test_trash_is_paged_and_totals_count_all(client, context):
    for number in range(60):
        when = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=number)
        add_embedding(context, f"cloud {number}", contents=[bytes([number])], trashed_at=when)
    first = client.get("/api/trash").json()
    assert [row["embedding"]["name"] for row in first["rows"]] == [f"cloud {number}" for number in range(59, 9, -1)]
    assert (first["total"], first["frees_bytes"], first["rows"][0]["frees_bytes"]) == (60, 60, 1)
    last = client.get("/api/trash?limit=3&offset=58").json()
    assert [row["embedding"]["name"] for row in last["rows"]] == ["cloud 1", "cloud 0"]
    page = " ".join(client.get("/trash").text.split())
    assert "60 embeddings; deleting all frees 60 bytes." in page
    assert '<a rel="next" href="/trash?page=2">Next</a>' in page
    assert page.count("Delete permanently</a>") == 50
    assert client.get("/trash?page=2").text.count("Delete permanently</a>") == 10
    assert "Page 2 of 2" in client.get("/trash?page=3").text
    assert "Delete 60 embeddings?" in client.get("/trash/purge").text


@pytest.mark.both_databases
def test_purging_sixty_takes_as_many_statements_as_three(context):
    counts = []
    for count in (3, 60):
        for number in range(count):
            row_id = add_embedding(context, f"cloud {number}", {"isoscore": 0.5}, ["t"], [SHARED], trashed_at=utcnow())
            with context.sessions.begin() as session:
                session.add(models.ZetaCurve(embedding_id=row_id, source="identity", status=models.ResultStatus.READY))
        results = []
        counts.append(len(queries_of(context, lambda results=results: results.append(empty_trash(context)))))
        assert results == [Purged(embeddings=count, freed_bytes=1000)]
    assert counts[0] == counts[1]
    tables = (models.Embedding, models.EmbeddingFile, models.EmbeddingTag, models.Measurement, models.ZetaCurve)
    assert [count_rows(context, table) for table in tables] == [0] * 5


@pytest.mark.both_databases
def test_file_shared_across_batches_is_freed_once(context, monkeypatch):
    monkeypatch.setattr(trash, "PURGE_BATCH", 2)
    kept_job = add_embedding(context, "kept", contents=[USED])
    for content in (UNSHARED, SHARED, SHARED, SHARED, USED):
        add_embedding(context, contents=[SHARED, content], trashed_at=utcnow())
    assert empty_trash(context) == Purged(embeddings=5, freed_bytes=1300)
    assert exist(context, SHARED, UNSHARED, USED) == [False, False, True]
    with context.sessions() as session:
        assert session.scalars(select(models.Embedding.id)).all() == [kept_job]


def test_jobs_of_trashed_embedding_continue(client, context, work):
    created = client.post("/api/embeddings?commit=auto", files={"file": ("x.csv", b"1,2\n3,4.5\n5,6\n")}).json()
    move_to_trash(client, created["id"])
    work()
    assert client.get(f"/api/embeddings/{created['id']}").json()["status"] == "ready"


def test_pages_trash_undo_restore_and_purge(client, context, three):
    page = f"/embeddings/{three[0]}"
    moved = client.post(f"{page}/trash").headers["location"]
    assert moved == f"/embeddings?moved={three[0]}"
    notice = client.get(moved).text.partition('role="status"')[2].partition("</form>")[0]
    assert "first is in the" in notice
    assert f'action="{page}/restore"' in notice
    assert "until you restore it" in client.get(page).text
    assert client.post(f"{page}/restore").headers["location"] == page
    assert ">Undo<" not in client.get(moved).text
    assert ">Undo<" not in client.get("/embeddings?moved=none").text

    for embedding_id in three:
        client.post(f"/embeddings/{embedding_id}/trash")
    page_text = " ".join(client.get("/trash").text.split())
    assert "3 embeddings; deleting all frees 1.37 kB." in page_text
    assert "370 bytes</td>" in page_text
    assert "0 bytes <small>its files are shared</small>" in page_text
    assert client.post(f"/embeddings/{three[2]}/restore", data={"back": "trash"}).headers["location"] == "/trash"
    assert "370 bytes of the storage are freed" in client.get(f"/trash/{three[0]}/purge").text
    assert "no bytes of the storage are freed" in client.get(f"/trash/{three[1]}/purge").text
    assert "Delete 2 embeddings?" in client.get("/trash/purge").text
    assert "1.37 kB of the storage are freed" in client.get("/trash/purge").text
    assert client.post(f"/trash/{three[0]}/purge").headers["location"] == "/trash"
    assert "1 embedding; deleting all frees 1.00 kB." in " ".join(client.get("/trash").text.split())
    assert client.post("/trash/purge").headers["location"] == "/trash"
    assert "The trash is empty." in client.get("/trash").text
    for path in ("/trash/purge", f"/trash/{three[2]}/purge"):
        assert client.get(path, headers={"accept": "text/html"}).status_code == 404
    assert "There is nothing to delete." in client.get("/trash/purge", headers={"accept": "text/html"}).text


def test_trashed_layers_are_hidden_and_purged_ones_not_found(context):
    encoding = add_encoding(context)
    layers = {"encoding_id": encoding, "pooling": models.Pooling.MEAN}
    add_embedding(context, "kept", {"isoscore": 0.5, "rankme": None}, layer=0, **layers)
    add_embedding(context, "gone", {"mean_cosine": 0.5}, layer=1, trashed_at=utcnow(), **layers)
    assert list_defined_measures(context, encoding) == {"isoscore"}
    encoding = add_encoding(context)
    layer = get_embedding(context, add_embedding(context, encoding_id=encoding, layer=0, pooling=models.Pooling.MEAN))
    assert find_adjacent_layers(context, layer) is not None
    trash.trash_embedding(context, layer.id)
    assert find_adjacent_layers(context, layer) is not None
    trash.purge_embedding(context, layer.id)
    assert find_adjacent_layers(context, layer) is None
    delete_encoding(context, encoding)
    assert find_adjacent_layers(context, layer) is None
