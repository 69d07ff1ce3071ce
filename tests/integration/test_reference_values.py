"""Reference values beside measures: those stored are what the script finds, and reports show them with n and d."""

import pytest

from app.core.process import bundled_folder
from app.db.models import EmbeddingStatus
from app.db.types import utcnow
from benchmarks.reference_values import encoded, generated, values_of
from isotropy.catalog import MEASURES, references
from tests.factories import add_embedding

MEASURE = "isoscore_unbiased"


def require_alike(known, found):
    """Moments agree to rounding; what searches neighbors may do it in bfloat16, and a few of them then differ."""
    assert (known.n, known.d) == found.points.shape
    again = values_of(found.points)
    assert again.keys() == known.values.keys()
    for slug, (value, _, n) in again.items():
        close = 1e-3 if MEASURES[slug].group in ("spread", "directions") else 0.03
        expected = known.values[slug]
        assert n == expected.n, slug
        assert value == pytest.approx(expected.value, rel=close, abs=max(1e-5, 0.1 * (expected.se or 0))), slug


@pytest.mark.parametrize("place", range(3))
def test_generated_clouds_score_what_is_stored(place):
    found = list(generated())[place]
    known = references()[place]
    assert (known.name, known.about) == (found.name, found.about)
    require_alike(known, found)


def test_a_layer_of_the_bundled_encoder_scores_what_is_stored():
    if bundled_folder() is None:
        pytest.skip("the bundled encoder is not installed")
    (found,) = encoded((6,))
    require_alike(references()[-1], found)
    assert [one.name for one in references()[3:]] == [f"all-MiniLM-L6-v2, layer {layer}" for layer in range(7)]


def test_reports_show_known_clouds_and_starred_embeddings_with_rows_and_dimensions(client, context):
    own = add_embedding(context, "own", {MEASURE: 0.5}, starred=True, measured_at=utcnow())
    starred = add_embedding(context, "my best", {MEASURE: 0.25, "no_measure": 1.0}, starred=True, d=7)
    add_embedding(context, "plain", {MEASURE: 0.33})
    add_embedding(context, "draft", {MEASURE: 0.44}, starred=True, status=EmbeddingStatus.DRAFT)
    for tab in ("", "?tab=measures"):
        page = client.get(f"/embeddings/{own}{tab}").text
        assert 'aria-label="Reference values of' in page
        assert "Narrow cone" in page
        assert "2,000 × 384" in page
        assert page.count("Your starred embeddings") == 1
        assert f'href="/embeddings/{starred}">my best</a>' in page
        assert ">draft<" not in page
        assert ">plain<" not in page
    assert "Reference values" not in client.get(f"/embeddings/{own}?tab=source").text
    alone = client.get(f"/embeddings/{own}/report.html").text
    assert "Narrow cone" in alone
    assert "my best" not in alone


def test_without_starred_embeddings_their_heading_is_left_out(client, context):
    own = add_embedding(context, "own", {"mean_cosine": 0.1})
    page = client.get(f"/embeddings/{own}?tab=measures").text
    assert "Narrow cone" in page
    assert "Your starred embeddings" not in page
