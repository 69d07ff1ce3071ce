"""Options of what is learned: data set columns, task, metric and model."""

from typing import Annotated

from pydantic import Field, ValidationInfo, field_validator

from app.db.options import sources
from app.db.options.option import DATA, TASK, Option, Options
from isoscope.core.task import METRIC_TITLES, METRICS, Metric, TaskKind


class DataOptions(Options):
    """What a model learns, of which columns."""

    model: Annotated[
        str,
        Option(
            "Model",
            "A model on this machine, or a name of the Hugging Face Hub where that can be reached.",
            DATA,
            several="models",
            more="Encoders and causal models with a head for the task. all-MiniLM-L6-v2 comes with Isoscope and needs "
            "no network.",
        ),
    ]
    task: Annotated[
        TaskKind,
        Option(
            "Task",
            "What the model learns to predict: a class, a number, or an answer in a text.",
            TASK,
            words={
                TaskKind.CLASSIFICATION: "classification: a class",
                TaskKind.REGRESSION: "regression: a number",
                TaskKind.SPAN: "span: an answer in the second text",
            },
            in_grid=False,
            more="Classification: one of a few classes, by cross-entropy. Regression: a number, by the squared error. "
            "Span: where in the context the answer begins and ends, as in SQuAD.",
            source=sources.SQUAD,
        ),
    ] = TaskKind.CLASSIFICATION
    metric: Annotated[
        Metric,
        Option(
            "Metric",
            "How performance is measured, on the validation rows.",
            TASK,
            words=METRIC_TITLES,
            in_grid=False,
            slows=False,
            formula="accuracy = right / all. F1 = 2 P R / (P + R), of the second of two classes, of more the mean over "
            "them. Matthews = (TP TN − FP FN) / √((TP + FP)(TP + FN)(TN + FP)(TN + FN)). Exact match and F1 of words: "
            "the answer beside the best of the right ones",
            more="Matthews correlation is 0 for a model that always says one class, however good its accuracy looks. "
            "It is undefined where all validation rows have one label.",
            source=f"{sources.MATTHEWS} Answers: {sources.SQUAD}",
        ),
    ] = Field(Metric.ACCURACY, validate_default=True)
    text_columns: Annotated[
        list[str],
        Field(min_length=1, max_length=2),
        Option(
            "Text columns",
            "What the model reads: one column of texts, or two as a pair; for answers question and context.",
            TASK,
            in_grid=False,
            more="A pair is read as one input, with the model’s separator between the two texts.",
        ),
    ]
    label_column: Annotated[
        str,
        Option(
            "Label column",
            "What is to be learned: a class, a number, or the answers.",
            TASK,
            in_grid=False,
            slows=False,
            more="Classes: at most 200, and none in the validation rows that no training row has. Numbers: a finite "
            'one in every row. Answers: text and where it begins, as {"text": ["in 1976"], "answer_start": [42]}.',
        ),
    ]

    @field_validator("metric")
    @classmethod
    def _metric_of_the_task(cls, metric: Metric, info: ValidationInfo) -> Metric:
        task = info.data.get("task")
        if task is not None and metric not in METRICS[task]:
            raise ValueError(f"expected a metric of {task}, one of {', '.join(METRICS[task])}; got {metric}")
        return metric
