import html

from app.db.models import RunStatus
from tests.factories import run_row


def ended(lam, seed, performance, isoscore_star=0.25, status=RunStatus.FINISHED, **options):
    by_layer = {measure: {"values": [0.25, 0.5], "reasons": [None, None]} for measure in ("silhouette", "twonn")}
    return run_row(
        lam, seed, config=options, status=status, performance=performance, isoscore_star=isoscore_star,
        results={"metrics": {"accuracy": performance, "f1": 0.5}, "by_layer": by_layer,
                 "by_layer_n": {"silhouette": 40, "twonn": 40}},
    )  # fmt: skip


def words(answer):
    assert answer.status_code == 200, answer.text
    return " ".join(html.unescape(answer.text).split())
