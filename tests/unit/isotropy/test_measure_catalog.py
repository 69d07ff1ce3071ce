import dataclasses
import math
import re

import pytest

from isotropy.catalog import GROUPS, MEASURES, Measure, directions, labels, neighbors, spread, topology


def test_catalog_has_every_measure_in_its_group():
    groups = dict(zip(GROUPS, (spread, directions, neighbors, topology, labels), strict=True))
    assert list(groups) == ["spread", "directions", "neighbors", "topology", "labels"]
    filed = [(measure.slug, group) for group, module in groups.items() for measure in module.MEASURES]
    assert filed == [(slug, measure.group) for slug, measure in MEASURES.items()]
    texts = dataclasses.asdict(MEASURES["isoscore"])
    for name in ("formula", "range", "meaning", "pitfall", "citation"):
        with pytest.raises(TypeError, match=name):
            Measure(**{key: text for key, text in texts.items() if key != name})


OPTIONAL = ("value", "bias", "corrected", "listed_with", "training_caution", "variant_of")


def test_measure_texts_are_complete_single_lines():
    for measure in MEASURES.values():
        for name, text in dataclasses.asdict(measure).items():
            if not isinstance(text, str):
                continue
            assert text.strip() == text, measure.slug
            assert text or name in OPTIONAL, measure.slug
            assert "\n" not in text, measure.slug
        assert re.fullmatch(r"[a-z0-9_]{1,40}", measure.slug)
        assert measure.meaning.endswith("."), measure.slug
        assert measure.pitfall.endswith("."), measure.slug
        assert re.search(r"\((19|20)\d\d\)", measure.citation), measure.slug


ENDS = {
    "isoscore": (0, 1), "isoscore_star": (0, 1), "participation_ratio": (1, 50), "effective_rank": (1, 50),
    "effective_rank_lambda": (1, 50), "rankme": (1, 50), "stable_rank": (1, 50), "explained_variance": (0, 1),
    "mean_cosine": (-1 / 999, 1), "mean_share": (0, 1), "anisotropy_raw": (0, 1), "anisotropy_centred": (0, 1),
    "activation_profile": (0, 50), "cosine_histogram": (-1 / 999, 1), "rogue_dimensions": (-1 / 49_950, 1),
    "partition": (0, 1), "uniformity": (-8, 0), "persistent_entropy": (0, math.log(999)),
    "persistent_entropy_normalised": (0, 1), "prominent_bars": (1, 998), "silhouette": (-1, 1),
    "simplified_silhouette": (-1, 1), "isoscore_by_label": (0, 1),
}  # fmt: skip


def test_finite_ranges_have_numeric_bounds():
    assert {slug: measure.bounds_for(1000, 50) for slug, measure in MEASURES.items() if measure.bounds} == ENDS
    assert {slug for slug, measure in MEASURES.items() if "∞" not in measure.range} == set(ENDS)
    for measure in MEASURES.values():
        constant = re.match(r"[\[(](−?\d+), (−?\d+)[\])]", measure.range)
        if constant is not None:
            ends = tuple(int(end.replace("−", "-")) for end in constant.groups())
            assert measure.bounds_for(1000, 50) == measure.bounds_for(9, 500) == ends, measure.slug
    assert MEASURES["participation_ratio"].bounds_for(20, 50) == (1, 19)
    assert MEASURES["rankme"].bounds_for(20, 50) == (1, 20)


@pytest.mark.parametrize("n", [0, 1, 2])
def test_range_of_zero_length_has_no_bounds(n):
    without = {slug for slug in ENDS if MEASURES[slug].bounds_for(n, 1) is None}
    assert without >= {"effective_rank", "persistent_entropy", "prominent_bars"}
