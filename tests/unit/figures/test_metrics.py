from app.db.options.regularization import NAMES
from app.results.labels import SCALES
from isoscope.core.task import METRICS, Metric
from isotropy.catalog import REGULARIZERS, Regularizer


def test_every_metric_of_a_task_has_a_name_and_a_range():
    assert set(SCALES) == set(Metric) == {metric for metrics in METRICS.values() for metric in metrics}
    assert SCALES["accuracy"] == ("Accuracy", 0, 1)
    negative = {metric for metric, scale in SCALES.items() if scale.range == "−1 to 1"}
    assert negative == {Metric.MATTHEWS, Metric.PEARSON, Metric.SPEARMAN}
    assert {SCALES[metric].range for metric in set(Metric) - negative} == {"0 to 1"}


def test_every_regularizer_has_a_name_and_all_but_none_what_they_add():
    assert set(NAMES) == set(Regularizer)
    assert len(set(NAMES.values())) == len(NAMES)
    assert set(REGULARIZERS) == set(Regularizer) - {Regularizer.NONE}
