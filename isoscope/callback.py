"""A callback of transformers' Trainer that streams a fine-tune into the dashboard."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import (
    PreTrainedModel,
    PreTrainedTokenizerBase,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)

from isoscope.core.formatting import count
from isoscope.core.task import Metric
from isoscope.hidden_states import LayerMeasures, LayerScores, evaluation_mode, hidden_states_of
from isoscope.track import SECONDS_TO_FINISH, LoggedRun, log_run
from isotropy.isoscore import isoscore_from_covariance
from isotropy.score import Score

MEASUREMENTS_PER_RUN = 12  # Aimed at if ``every`` is None; short runs have up to twice as many
EVALUATION_ZETA = 0.0  # IsoScore* of the layers is not shrunk


class IsoscopeCallback(TrainerCallback):
    """Streams loss, measures by layer of probe texts, and the metrics of the last evaluation.

    The loss is what the Trainer logs; a logged value named ``penalty`` is streamed with it. Layers are measured
    before the first step, every ``every`` steps and at the end, without dropout and without touching the random state.
    The run ends with the evaluation of the trained model (the best one if the Trainer loads it), or with the script.
    Each training is a separate run, even if it resumes another. With several processes only the first streams.

    Args:
        experiment: name that groups runs.
        dataset: name of the data set.
        metric: measure of performance; the evaluation must return it, as ``eval_accuracy`` for accuracy.
        task: classification, regression or span.
        probe: texts, or a batch ``{"input_ids", "attention_mask", ...}`` [n, tokens], on which layers are measured;
            the same in all runs that are compared.
        every: steps between measurements of the layers; None means about 12 measurements.
        model: name of the model; None takes the configuration's.
        regularizer: the penalty that ``compute_loss`` adds: see ``isoscope.log_run``.
        lam: strength of the penalty.
        zeta: shrinkage of I-STAR, in [0, 1].
        settings: added to those of the ``TrainingArguments``.
        stop_when_cancelled: end the training when the run is cancelled in the dashboard.
        url: address of the dashboard.
        token: access token of the dashboard.

    """

    run: LoggedRun | None = None

    def __init__(
        self,
        experiment: str,
        *,
        dataset: str,
        metric: str,
        task: str = "classification",
        probe: Sequence[str] | Mapping[str, Tensor] | None = None,
        every: int | None = None,
        model: str | None = None,
        regularizer: str = "none",
        lam: float = 0.0,
        zeta: float | None = None,
        settings: Mapping[str, Any] | None = None,
        stop_when_cancelled: bool = False,
        url: str | None = None,
        token: str | None = None,
    ) -> None:
        self._run_arguments: dict[str, Any] = {
            "experiment": experiment, "dataset": dataset, "metric": metric, "task": task, "regularizer": regularizer,
            "lam": lam, "zeta": zeta, "url": url, "token": token,
        }  # fmt: skip
        self._probe = probe
        self._requested_interval = every
        self._model_name = model
        self._settings = dict(settings or {})
        self._stop_when_cancelled = stop_when_cancelled
        self._probe_batches: list[dict[str, Tensor]] = []
        self._interval = 1  # Steps between measurements of the layers
        self._last_measures: LayerMeasures | None = None
        self._measured_step: int | None = None
        self._evaluations: dict[int, dict[str, float]] = {}  # Metrics by step
        self._final_step: int | None = None  # Step of the trained model, once training has ended

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        if not state.is_world_process_zero:
            return
        # End the run of an earlier training if it has not ended, and forget its state.
        if self.run is not None and self._final_step is not None:
            self.finish()
        elif self.run is not None:
            self.run.fail("Another training began before this one had ended.")
        self.run, self._last_measures, self._measured_step = None, None, None
        self._evaluations, self._final_step = {}, None
        model = _unwrap(kwargs["model"])
        tokenizer = kwargs.get("processing_class")
        self._probe_batches = list(_iterate_batches(self._probe, tokenizer, args.per_device_eval_batch_size))
        self._interval = self._requested_interval or max(1, state.max_steps // MEASUREMENTS_PER_RUN)
        n_tokens = sum(int(batch["attention_mask"].sum()) for batch in self._probe_batches)
        n_texts = sum(len(batch["attention_mask"]) for batch in self._probe_batches)
        length_settings = {"max_steps": args.max_steps} if args.max_steps > 0 else {}
        if not length_settings and float(args.num_train_epochs).is_integer():
            length_settings = {"epochs": int(args.num_train_epochs)}
        settings = {
            **length_settings,
            "batch_size": args.per_device_train_batch_size,
            "accumulation": args.gradient_accumulation_steps,
            "learning_rate": args.learning_rate,
            "weight_decay": args.weight_decay,
            "precision": "bf16" if args.bf16 else "fp16" if args.fp16 else "fp32",
            **({"evaluation_zeta": EVALUATION_ZETA} if self._probe_batches else {}),
            **self._settings,
        }
        self.run = log_run(
            **self._run_arguments,
            model=self._model_name or str(model.config.name_or_path or model.config.model_type),
            seed=args.seed,
            settings=settings,
            environment={"device": str(args.device), "torch": torch.__version__},
            total_steps=state.max_steps,
            probe={"tokens": n_tokens, "texts": n_texts} if self._probe_batches else None,
        )
        if state.global_step == 0:
            self._measure_layers(model, 0)

    def on_log(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        logs: Mapping[str, float] = kwargs.get("logs") or {}
        if self.run is not None and "loss" in logs:
            self.run.step(state.global_step, task_loss=logs["loss"], penalty=logs.get("penalty"))

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        if self.run is None:
            return
        if state.global_step % self._interval == 0 or state.global_step == state.max_steps:
            self._measure_layers(_unwrap(kwargs["model"]), state.global_step)
        if self._stop_when_cancelled and self.run.cancelled:
            control.should_training_stop = True

    def on_evaluate(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        step = state.global_step if self._final_step is None else self._final_step
        metrics: Mapping[str, float] = kwargs.get("metrics") or {}
        self._evaluations[step] = {name.removeprefix("eval_"): value for name, value in metrics.items()}
        if self._final_step is not None:
            self.finish()

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Measure the trained model; end the run now if it was evaluated, else after its evaluation or at exit."""
        if self.run is None:
            return
        # The step of the trained model: the best one if the Trainer loads it, else the last.
        has_best = args.load_best_model_at_end and state.best_model_checkpoint is not None
        best_step = state.best_global_step if has_best else None
        self._final_step = state.global_step if best_step is None else best_step
        if self._measured_step != self._final_step:
            self._measure_layers(_unwrap(kwargs["model"]), self._final_step)
        if self._final_step in self._evaluations:
            self.finish()
        else:
            self.run.at_exit(self.finish)

    def finish(self, timeout: float = SECONDS_TO_FINISH) -> None:
        """End the run with its last evaluation and measurements, waiting up to ``timeout`` seconds."""
        if self.run is None:
            return
        last_evaluated_step = next(reversed(self._evaluations), None)
        # Prefer the evaluation of the trained model to the last one.
        step = self._final_step if self._final_step in self._evaluations else last_evaluated_step
        evaluation = {} if step is None else self._evaluations[step]
        metrics = {name: value for name, value in evaluation.items() if name in set(Metric)}
        extra_results = {name: value for name, value in evaluation.items() if name not in metrics and name != "epoch"}
        notes = []
        if step is not None and self._final_step not in (None, step):
            notes = [f"Its metrics are of step {count(step)}, its trained model is of step {count(self._final_step)}."]
        scores: dict[str, LayerScores] = {}
        union_score = Score(None)
        if self._last_measures is not None:
            scores = self._last_measures.scores(EVALUATION_ZETA)
            union_score = isoscore_from_covariance(self._last_measures.tokens.union().covariance())
        self.run.finish(
            metrics,
            isoscore_star=union_score.value,
            isoscore_star_reason=union_score.reason,
            by_layer={measure: [score.value for score in layers.scores] for measure, layers in scores.items()},
            by_layer_n={measure: layers.n for measure, layers in scores.items()},
            by_layer_reasons={measure: [score.reason for score in layers.scores] for measure, layers in scores.items()},
            results=extra_results,
            notes=notes,
            timeout=timeout,
        )

    def _measure_layers(self, model: PreTrainedModel, step: int) -> None:
        if self.run is None or not self._probe_batches:
            return
        layers = LayerMeasures(model)
        with evaluation_mode(model):
            for batch in self._probe_batches:
                inputs = {name: tensor.to(model.device) for name, tensor in batch.items()}
                layers.update(hidden_states_of(model(**inputs, output_hidden_states=True)), inputs["attention_mask"])
        self._last_measures, self._measured_step = layers, step
        self.run.step(step, layers=layers.values())


def _unwrap(model: Any) -> PreTrainedModel:
    """Return the model itself, without a wrapper such as DistributedDataParallel."""
    unwrapped: PreTrainedModel = getattr(model, "module", model)
    return unwrapped


def _iterate_batches(
    probe: Sequence[str] | Mapping[str, Tensor] | None, tokenizer: PreTrainedTokenizerBase | None, batch_size: int
) -> Iterator[dict[str, Tensor]]:
    """Yield batches of the probe, tokenized; none without a probe. Raise ValueError for texts without a tokenizer."""
    if probe is None:
        return
    if isinstance(probe, Mapping):
        for start in range(0, len(probe["attention_mask"]), batch_size):
            yield {name: tensor[start : start + batch_size] for name, tensor in probe.items()}
        return
    if tokenizer is None:
        raise ValueError("Expected the Trainer to have a processing_class for a probe of texts; give it, or a batch.")
    for start in range(0, len(probe), batch_size):
        batch = list(probe[start : start + batch_size])
        yield dict(tokenizer(batch, padding=True, truncation=True, return_tensors="pt"))
