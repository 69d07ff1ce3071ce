"""Options of the data: columns, task, metric and model."""

from typing import Annotated

from pydantic import Field, ValidationInfo, field_validator

from app.db.options.option import DATA, TASK, Option, Options
from isoscope.core.task import METRIC_TITLES, METRICS, Metric, TaskKind

MATTHEWS = (
    "Matthews (1975). Comparison of the predicted and observed secondary structure of T4 phage lysozyme. Biochimica et "
    "Biophysica Acta 405(2), 442–451."
)
SQUAD = "Rajpurkar, Zhang, Lopyrev & Liang (2016). SQuAD: 100,000+ Questions for Machine Comprehension. EMNLP 2016."


class DataOptions(Options):
    """Options of the model, the task, and the columns it reads."""

    model: Annotated[
        str,
        Option(
            "Model",
            "A model folder on this machine, or a model name on the Hugging Face Hub.",
            DATA,
            plural="models",
            details="Encoders and causal models for which transformers has a head for the task. all-MiniLM-L6-v2 comes "
            "with Isoscope and needs no network.",
        ),
    ]
    task: Annotated[
        TaskKind,
        Option(
            "Task",
            "What the model predicts: a class, a number, or an answer within a text.",
            TASK,
            words={
                TaskKind.CLASSIFICATION: "classification: a class",
                TaskKind.REGRESSION: "regression: a number",
                TaskKind.SPAN: "span: an answer within the second text",
            },
            in_grid=False,
            details="Classification minimizes cross-entropy over the classes. Regression minimizes the squared error. "
            "Span predicts where the answer starts and ends in the context, as in SQuAD.",
            source=SQUAD,
        ),
    ] = TaskKind.CLASSIFICATION
    metric: Annotated[
        Metric,
        Option(
            "Metric",
            "How performance is measured on the validation rows.",
            TASK,
            words=METRIC_TITLES,
            in_grid=False,
            formula="accuracy = correct / all. F1 = 2 P R / (P + R), of the second class where there are two, else the "
            "mean over classes. Matthews = (TP TN − FP FN) / √((TP + FP)(TP + FN)(TN + FP)(TN + FN)). Exact match and "
            "F1 of words compare the answer with the closest correct one",
            details="Matthews correlation is 0 for a model that always predicts one class, whatever its accuracy. It "
            "is undefined when all validation rows have the same label.",
            source=f"{MATTHEWS} Answers: {SQUAD}",
        ),
    ] = Field(Metric.ACCURACY, validate_default=True)
    text_columns: Annotated[
        list[str],
        Field(min_length=1, max_length=2),
        Option(
            "Text columns",
            "One column of texts, or two for text pairs. For spans: question and context.",
            TASK,
            in_grid=False,
            details="The model reads a pair as one input, with its separator between the two texts.",
        ),
    ]
    label_column: Annotated[
        str,
        Option(
            "Label column",
            "The column to predict: classes, numbers, or answers.",
            TASK,
            in_grid=False,
            details="Classes: at most 200, each of which must occur in the training rows. Numbers: finite in every "
            'row. Answers: their text and start, such as {"text": ["in 1976"], "answer_start": [42]}.',
        ),
    ]

    @field_validator("metric")
    @classmethod
    def _check_metric(cls, metric: Metric, info: ValidationInfo) -> Metric:
        task = info.data.get("task")
        if task is not None and metric not in METRICS[task]:
            raise ValueError(f"expected a metric of {task}, one of {', '.join(METRICS[task])}; got {metric}")
        return metric
