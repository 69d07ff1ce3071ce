import os
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from app.core.process import bundled_folder
from isotropy.cloud import read_cloud
from isotropy.findings import Severity, findings_of
from isotropy.rows import Rows
from tests.planted import (
    LISTED,
    Bases,
    healthy,
    healthy_of_other_kinds,
    planted,
    planted_rows_and_dimensions,
    word_vectors,
)

DATA = os.environ.get("ISOSCOPE_BENCH_DATA")
SEED = 20_261_123
# A part of the rows may be called either of these, depending on its distance.
PARTS = frozenset({"mixed_clouds", "unrelated_rows"})
AGREEMENT = 0.9  # Jaccard index of the rows named and planted, where parts of a cloud overlap

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        DATA is None or bundled_folder() is None, reason="ISOSCOPE_BENCH_DATA is unset, or no encoder is installed"
    ),
]


@cache
def sentence_vectors():
    """872 sentences of SST-2 by the bundled encoder, mean over tokens, [872, 384]."""
    folder = bundled_folder()
    model, tokenizer = AutoModel.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
    lines = Path(DATA, "sst2/validation.tsv").read_text(encoding="utf-8").split("\n")
    texts = [line.split("\t")[0] for line in lines[1:] if line]
    vectors = []
    for start in range(0, len(texts), 64):
        tokens = tokenizer(texts[start : start + 64], return_tensors="pt", padding=True, truncation=True, max_length=64)
        with torch.no_grad():
            states = model(**tokens).last_hidden_state
        mask = tokens["attention_mask"][..., None].float()
        vectors.append((states * mask).sum(1) / mask.sum(1))
    return torch.cat(vectors).numpy()


def bases(seed):
    return Bases(np.random.default_rng(seed), word_vectors(DATA), sentence_vectors())


def matches(finding, defect):
    """Return whether a finding names the rows or dimensions of a planted defect."""
    if not (finding.slug == defect.slug or {finding.slug, defect.slug} == PARTS):
        return False
    if defect.dimensions is not None and finding.dimensions != defect.dimensions:
        return False
    if defect.rows is None:
        return True
    if defect.slug == "unrelated_rows":
        rows = set(finding.all_rows.tolist())
        return len(rows & set(defect.rows)) >= AGREEMENT * len(rows | set(defect.rows))
    return (finding.rows, finding.row_count) == (defect.rows[:LISTED], len(defect.rows))


@pytest.mark.parametrize(
    ("plant", "total", "rank", "max_missed"), [(planted, 24, 1, 1), (planted_rows_and_dimensions, 40, None, 3)]
)
def test_planted_defect_is_the_first_finding_or_among_them(plant, total, rank, max_missed):
    defects = list(plant(bases(SEED)))
    assert len(defects) == total
    missed = [
        defect.name
        for defect in defects
        if not any(matches(finding, defect) for finding in findings_of(read_cloud(Rows(defect.x)))[:rank])
    ]
    assert len(missed) <= max_missed, missed


def test_healthy_clouds_have_no_warning():
    warned = []
    clouds = [*healthy(bases(SEED + 1)), *healthy_of_other_kinds(bases(SEED + 1))]
    assert len(clouds) == 64
    for name, x in clouds:
        findings = findings_of(read_cloud(Rows(x)))
        warned += [(name, finding.slug, finding.title) for finding in findings if finding.severity is not Severity.NOTE]
    assert warned == []
