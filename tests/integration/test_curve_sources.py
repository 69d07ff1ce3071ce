from datetime import UTC, datetime, timedelta

import pytest

from app.db.models import EmbeddingStatus, Pooling, ResultStatus, ZetaCurve
from app.embeddings import zeta_curves
from app.embeddings.service import get_embedding
from app.embeddings.zeta_curves import list_curve_sources
from tests.factories import add_embedding, add_encoding

START = datetime(2026, 1, 1, tzinfo=UTC)


def list_source_names(context, embedding_id):
    return [name for _, name, _ in list_curve_sources(context, get_embedding(context, embedding_id))]


@pytest.mark.both_databases
def test_sources_list_own_layers_first_and_keep_chosen(client, context, monkeypatch):
    mine, other_encoding = add_encoding(context), add_encoding(context)
    layer_fields = {"pooling": Pooling.MEAN, "created_at": START}
    layer = add_embedding(context, "layer 0", encoding_id=mine, layer=0, **layer_fields)
    add_embedding(context, "layer 1", encoding_id=mine, layer=1, **layer_fields)
    add_embedding(context, "of another", encoding_id=other_encoding, layer=0, **layer_fields)
    for day in range(3):
        upload = add_embedding(context, f"upload {day}", created_at=START + timedelta(days=day))
    add_embedding(context, "wider", d=9)
    add_embedding(context, "thrown away", trashed_at=START)
    add_embedding(context, "a draft", status=EmbeddingStatus.DRAFT)
    assert list_source_names(context, layer) == ["layer 1", "upload 2", "upload 1", "upload 0"]
    assert list_source_names(context, upload) == ["upload 1", "upload 0"]
    monkeypatch.setattr(zeta_curves, "MAX_CHOICES", 2)
    assert list_source_names(context, layer) == ["layer 1", "upload 2"]
    curve = ZetaCurve(embedding_id=upload, source="embedding", source_id=layer, status=ResultStatus.QUEUED)
    with context.sessions.begin() as session:
        session.add(curve)
    page = client.get(f"/embeddings/{upload}?source={layer}").text
    assert f'<option value="{layer}" selected>another embedding</option>' in page
    assert "The curve against this covariance appears here" in page
    answer = client.get("/api/embeddings/any/curves/zeta?source_id=other")
    assert answer.status_code == 422
    assert "`source=embedding`" in answer.text
