import pytest

from app.core.process import bundled_folder
from app.db.types import utcnow
from benchmarks.reference_values import encode_layers, generate_clouds, values_of
from isotropy.catalog import MEASURES, references
from tests.factories import add_embedding

MEASURE = "isoscore_unbiased"


def check_values(stored, computed):
    """Moments agree to rounding. Neighbors may be searched in bfloat16, so a few of them differ."""
    assert (stored.n, stored.d) == computed.points.shape
    new_values = values_of(computed.points)
    assert new_values.keys() == stored.values.keys()
    for slug, (value, _, n) in new_values.items():
        close = 1e-3 if MEASURES[slug].group in ("spread", "directions") else 0.03
        expected = stored.values[slug]
        assert n == expected.n, slug
        assert value == pytest.approx(expected.value, rel=close, abs=max(1e-5, 0.1 * (expected.se or 0))), slug


@pytest.mark.parametrize("index", range(3))
def test_generated_clouds_match_stored_values(index):
    computed = list(generate_clouds())[index]
    stored = references()[index]
    assert (stored.name, stored.about) == (computed.name, computed.about)
    check_values(stored, computed)


@pytest.mark.long
def test_encoder_layer_matches_stored_values():
    if bundled_folder() is None:
        pytest.skip("the bundled encoder is not installed")
    (computed,) = encode_layers((6,))
    check_values(references()[-1], computed)
    assert [cloud.name for cloud in references()[3:]] == [f"all-MiniLM-L6-v2, layer {layer}" for layer in range(7)]


def test_report_shows_known_clouds_with_rows_and_dimensions(client, context):
    embedding_id = add_embedding(context, "mine", {MEASURE: 0.5}, measured_at=utcnow())
    band = "Layers of all-MiniLM-L6-v2 (384 dimensions): 0.050 to 0.12"
    assert band in client.get(f"/embeddings/{embedding_id}").text.replace("\u00a0", " ")
    for path in ("?tab=details", "/report.html"):
        page = client.get(f"/embeddings/{embedding_id}{path}").text
        for words in ('aria-label="Reference values of', "Narrow cone", "2,000 × 384"):
            assert words in page
    assert "Reference values" not in client.get(f"/embeddings/{embedding_id}?tab=map").text
