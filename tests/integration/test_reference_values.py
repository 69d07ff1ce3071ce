"""Reference values beside measures: those stored are what the script finds, and reports show them with n and d."""

import pytest

from app.core.process import bundled_folder
from app.db.types import utcnow
from benchmarks.reference_values import encode_layers, generate_clouds, values_of
from isotropy.catalog import MEASURES, references
from tests.factories import add_embedding

MEASURE = "isoscore_unbiased"


def require_alike(stored, computed):
    """Moments agree to rounding; what searches neighbors may do it in bfloat16, and a few of them then differ."""
    assert (stored.n, stored.d) == computed.points.shape
    again = values_of(computed.points)
    assert again.keys() == stored.values.keys()
    for slug, (value, _, n) in again.items():
        close = 1e-3 if MEASURES[slug].group in ("spread", "directions") else 0.03
        expected = stored.values[slug]
        assert n == expected.n, slug
        assert value == pytest.approx(expected.value, rel=close, abs=max(1e-5, 0.1 * (expected.se or 0))), slug


@pytest.mark.parametrize("index", range(3))
def test_generated_clouds_score_what_is_stored(index):
    computed = list(generate_clouds())[index]
    stored = references()[index]
    assert (stored.name, stored.about) == (computed.name, computed.about)
    require_alike(stored, computed)


@pytest.mark.long
def test_a_layer_of_the_bundled_encoder_scores_what_is_stored():
    if bundled_folder() is None:
        pytest.skip("the bundled encoder is not installed")
    (computed,) = encode_layers((6,))
    require_alike(references()[-1], computed)
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
