"""Runs of experiments on tiny-bert that nobody trained, and the words of a page."""

import html

from app.db.config import RunConfig
from app.db.models import Run, RunStatus
from app.db.regularizer_options import Regularizer

OPTIONS = {"model": "tiny-bert", "text_columns": ["sentence"], "label_column": "label", "label_names": ["0", "1"]}


def made(lam, seed, performance, isoscore_star=0.25, status=RunStatus.FINISHED, **options):
    chosen = Regularizer.ISTAR if lam else Regularizer.NONE
    config = RunConfig(**OPTIONS | options, regularizer=chosen, lam=lam, seed=seed)
    by_layer = {one: {"values": [0.25, 0.5], "reasons": [None, None]} for one in ("silhouette", "twonn")}
    return Run(
        position=0, config=config.model_dump(mode="json"), regularizer=chosen, lam=lam, zeta=config.zeta, seed=seed,
        status=status, performance=performance, isoscore_star=isoscore_star,
        results={"metrics": {"accuracy": performance, "f1": 0.5}, "by_layer": by_layer,
                 "by_layer_n": {"silhouette": 40, "twonn": 40}},
    )  # fmt: skip


def words(answer):
    assert answer.status_code == 200, answer.text
    return " ".join(html.unescape(answer.text).split())
