import dataclasses
import math
import re
import subprocess
import sys

import pytest

from isotropy.catalog import (
    GROUPS,
    MEASURES,
    METHODS,
    Measure,
    directions,
    labels,
    measures_of,
    neighbours,
    spread,
    topology,
)
from isotropy.catalog.document import document


def isotropic(**changed):
    """A measure like IsoScore but for what is changed."""
    return dataclasses.replace(MEASURES["isoscore"], **changed)


def test_no_measure_of_a_group_is_lost_in_the_catalog_or_filed_under_another():
    groups = {
        "spread": spread,
        "directions": directions,
        "neighbours": neighbours,
        "topology": topology,
        "labels": labels,
    }
    assert list(groups) == list(GROUPS)
    filed = [(measure.slug, group) for group, module in groups.items() for measure in module.MEASURES]
    assert filed == [(slug, measure.group) for slug, measure in MEASURES.items()]


@pytest.mark.parametrize("measure", MEASURES.values(), ids=MEASURES)
def test_a_measure_is_described_in_full_and_in_one_line_each(measure):
    for text in dataclasses.asdict(measure).values():
        assert text.strip()
        assert "\n" not in text
    assert re.fullmatch(r"[a-z0-9_]{1,40}", measure.slug)
    assert measure.meaning.endswith(".")
    assert measure.pitfall.endswith(".")
    assert re.search(r"\((19|20)\d\d\)", measure.citation)


def test_a_measure_lacks_none_of_its_texts():
    texts = dataclasses.asdict(MEASURES["isoscore"])
    for name in ("formula", "range", "meaning", "pitfall", "citation"):
        with pytest.raises(TypeError, match=name):
            Measure(**{key: text for key, text in texts.items() if key != name})


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        ("[0, 1]", (0, 1)),
        ("(0, 1]", (0, 1)),
        ("[1, d]", (1, 50)),
        ("[−1, 1]", (-1, 1)),
        ("[−1/(n − 1), 1]", (-1 / 999, 1)),
        ("[1, min(n − 1, d)]", (1, 50)),
        ("[0, log(n − 1)]", (0, math.log(999))),
        ("[0, log(n − 1)], in nats", (0, math.log(999))),
        ("[1, d)", (1, 50)),
        ("[0, sqrt(d) * 2.5]", (0, math.sqrt(50) * 2.5)),
        ("[0, 1]; k = 1 is at least 1/min(n, d)", (0, 1)),
    ],
)
def test_a_bounded_range_has_numbers_for_its_ends(text, ends):
    assert isotropic(range=text).ends(1000, 50) == pytest.approx(ends)


@pytest.mark.parametrize(
    "text",
    [
        "[0, ∞)",
        "(−∞, ∞) for the mean, [0, ∞) for the standard deviation",
        "[0, 1] or [1, d]",
        "[0, 1], [1, d]",
        "(−∞, ∞), about [0, 1]",
        "about [0, 1]",
        "1 to n − 2",
        "[0, k]",
        "[0, exp(d)]",
        "[0, d ** 2]",
        "[0, 'd']",
        "[0, log(d, n, 2)]",
        "[0]",
        "[0, 1, 2]",
        "[1, 1/(n − 1000)]",
        "[0, log(n − 1001)]",
        "[0, log(d.real)]",
        "any number",
        "[1, d − 49]",
    ],
)
def test_a_range_without_two_numbers_that_can_be_told_has_no_ends(text):
    assert isotropic(range=text).ends(1000, 50) is None


def test_the_document_has_every_measure_and_method_under_its_heading_with_all_it_says():
    described = {GROUPS[group]: measures_of(group) for group in GROUPS} | {"Post-processing": [*METHODS.values()]}
    parts = document().split("\n## ")[1:]
    assert [part.partition("\n")[0] for part in parts] == list(described)
    for part, (heading, entries) in zip(parts, described.items(), strict=True):
        assert re.findall(r'<a id="(.+?)">', part) == [entry.slug for entry in entries], heading
        for entry in entries:
            said = part.partition(f'<a id="{entry.slug}"></a>')[2].partition("\n###")[0]
            assert said.startswith(entry.name.replace("*", "★"))
            for text in texts_of(entry):
                assert text in said.replace("\\", "")


def texts_of(entry):
    """All that the catalogue says of a measure or a method but its slug, its name and words for choices."""
    if isinstance(entry, Measure):
        return [entry.symbol, entry.formula, entry.range, entry.meaning, entry.pitfall, entry.citation]
    parameters = [text for one in entry.parameters for text in (f"`{one.name}`: {one.meaning}", one.range)]
    return [entry.formula, entry.meaning, entry.pitfall, entry.citation, *parameters]


def test_the_document_begins_with_a_link_to_everything_in_it():
    contents, _, rest = document().partition("\n## ")
    linked = re.findall(r"\[(.+?)\]\(#(\w+)\)", contents.partition("\n- ")[2])
    headed = re.findall(r'^### <a id="(\w+)"></a>(.+)$', rest, re.MULTILINE)
    assert linked == [(name, slug) for slug, name in headed]
    assert re.findall(r"^- (.+?): ", contents, re.MULTILINE) == [*GROUPS.values(), "Post-processing"]


def test_the_catalog_imports_nothing_beyond_the_standard_library():
    code = (
        "import sys, isotropy.catalog;"
        "loaded = {name.partition('.')[0] for name in sys.modules};"
        "print(sorted(loaded & {'torch', 'numpy', 'scipy', 'transformers'}))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
