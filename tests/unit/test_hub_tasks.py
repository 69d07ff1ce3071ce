import re

import pytest

from app.db.hub_tasks import TASKS, HubName
from isoscope.core.task import METRICS, Metric, TaskKind


def test_hub_tasks_pin_commit_and_metric():
    assert set(TASKS) == set(HubName)
    for task in TASKS.values():
        assert re.fullmatch(r"[0-9a-f]{40}", task.source.revision)
        assert task.metric in METRICS[task.task]
    other_metrics = {name: task.metric for name, task in TASKS.items() if task.metric is not Metric.ACCURACY}
    assert other_metrics == {HubName.COLA: Metric.MATTHEWS, HubName.STSB: Metric.PEARSON, HubName.SQUAD: Metric.WORD_F1}


@pytest.mark.parametrize("name", HubName)
def test_task_columns_are_its_texts_and_label(name):
    task = TASKS[name]
    *texts, label = task.columns()
    assert tuple(column.name for column in texts) == task.text_columns
    assert (label.name, label.values) == (task.label_column, list(task.labels) or None)
    assert (len(task.labels) >= 2) == (task.task is TaskKind.CLASSIFICATION)
