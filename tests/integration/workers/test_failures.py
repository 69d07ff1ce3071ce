import asyncio
import dataclasses

import datasets
import pytest
import torch
from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError, RepositoryNotFoundError
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

from app.core.devices import TorchDevice
from app.core.process import BUNDLED_MODEL, bundled_folder
from app.db.job_kinds import CURVE, Job
from app.db.models import Attempt, AttemptOutcome, Dataset, DatasetOrigin, Run, RunStatus
from app.db.work import SHARED_MEMORY_NOTE, begin_attempt, slot_name
from app.storage import open_storage
from isoscope.core.errors import InvalidError, UnavailableError
from tests.integration.workers.conftest import outcome
from workers import failure, models
from workers.failure import DeviceLostError
from workers.job_rows import job_sessions
from workers.process import DEVICE_LOST, JobProcesses
from workers.training import trainer
from workers.training.job import fine_tune
from workers.training.trainer import IsotropyTrainer

NO_POINTS = "The penalty has no value at step 1. Expected finite points"
NO_LOSS = "became NaN or infinite at step 1. Lower the learning rate"
NAN = {"none": NO_LOSS, "istar": NO_POINTS, "istar_unbiased": NO_POINTS, "cosreg": NO_POINTS, "entropy": NO_POINTS,
       "spectrum": NO_LOSS}  # fmt: skip
KINDS = [torch.OutOfMemoryError("CUDA out of memory"), RuntimeError("DefaultCPUAllocator: can't allocate memory"),
         torch.AcceleratorError("CUDA error: out of memory"), RuntimeError("CUBLAS_STATUS_ALLOC_FAILED")]  # fmt: skip
GPU_ERROR = torch.AcceleratorError("CUDA error: unspecified launch failure")
NO_GPU = RuntimeError("No CUDA GPUs are available")
ABSENT = [
    ({"layers": [1, 3]}, "'tiny-bert' has layers 1 to 2, got [1, 3]"),
    ({"text_columns": ["headline"]}, "headline"),
    ({"label_names": ["1", "2"]}, "has the label '0' in column 'label'; expected one of 1, 2."),
]


def error_of(settings, get_run, run_id):
    assert fine_tune(run_id, settings, "cpu") == ()
    run = get_run(run_id)
    assert run.status is RunStatus.FAILED
    assert run.finished_at is not None
    assert not (settings.runs / run_id).exists()
    return run.error


def refused():
    error = RepositoryNotFoundError.__new__(RepositoryNotFoundError)
    error.args = ("404:\n not found",)
    return error


AWAY = "no model '{}' on this machine, and the Hub cannot be reached"
NO_NAME = "it cannot be a Hub name either"
HUB = [
    *((name, LocalEntryNotFoundError("away"), AWAY) for name in ("no-such-model", "no-one/no-such-model")),
    ("no-one/nothing", refused(), "the Hub refuses it: 404: not found"),
    *((name, HFValidationError("no"), NO_NAME) for name in ("..", "../models", "/tmp", "a/b/c")),
]


@pytest.mark.parametrize(("name", "error", "sentence"), HUB, ids=[case[0] for case in HUB])
def test_unknown_model_is_refused(make_run, settings, get_run, monkeypatch, name, error, sentence):
    monkeypatch.setattr(models, "snapshot_download", raising(error))
    assert sentence.format(name) in error_of(settings, get_run, make_run(model=name))


def test_altered_bundled_weights_are_not_loaded(settings, tmp_path, monkeypatch):
    assert models.find_source(BUNDLED_MODEL, settings).folder == bundled_folder()
    (tmp_path / "model.safetensors").write_bytes(b"altered")
    monkeypatch.setattr(models, "bundled_folder", lambda: tmp_path)
    with pytest.raises(InvalidError, match="are not the published ones: the file was damaged or altered") as raised:
        models.find_source(BUNDLED_MODEL, settings)
    assert raised.value.field == "model"


def pickle_weights(folder):
    (folder / "model.safetensors").unlink()
    torch.save({}, folder / "pytorch_model.bin")


def drop_tokenizer(folder):
    for path in folder.glob("tokenizer*"):
        path.unlink()


def drop_padding(folder):
    words = AutoTokenizer.from_pretrained(folder).backend_tokenizer
    PreTrainedTokenizerFast(tokenizer_object=words).save_pretrained(folder)


def drop_weights(folder):
    weights = load_file(folder / "model.safetensors")
    del weights["bert.encoder.layer.1.output.dense.weight"], weights["bert.pooler.dense.weight"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def enlarge_vocabulary(folder):
    path = folder / "config.json"
    path.write_text(path.read_text().replace('"vocab_size": 18', '"vocab_size": 19'))


DAMAGES = {
    "has no weights as safetensors": pickle_weights,
    "The model 'broken' has no tokenizer: expected one of": drop_tokenizer,
    "The model 'broken' has no tokenizer that can be loaded":
        lambda folder: (folder / "tokenizer_config.json").write_text("[]"),
    "The tokenizer of 'broken' has no token to pad with": drop_padding,
    "cannot be loaded for classification: The checkpoint":
        lambda folder: (folder / "config.json").write_text('{"model_type": "strange"}'),
    "The files of 'broken' lack 1 of its weights, such as bert.encoder.layer.1.output.dense.weight": drop_weights,
    "The files of 'broken' lack 1 of its weights, such as bert.embeddings.word_embeddings.weight": enlarge_vocabulary,
}  # fmt: skip


@pytest.mark.parametrize(("sentence", "damage"), DAMAGES.items())
def test_broken_model_is_refused_and_pickles_are_not_loaded(make_run, settings, get_run, copy_model, sentence, damage):
    damage(copy_model("broken"))
    assert sentence in error_of(settings, get_run, make_run(model="broken"))


@pytest.mark.parametrize(("regularizer", "sentence"), NAN.items())
def test_nan_loss_is_refused(make_run, settings, get_run, copy_model, regularizer, sentence):
    broken = BertForSequenceClassification(BertConfig.from_pretrained(copy_model("broken")))
    torch.nn.init.constant_(broken.bert.encoder.layer[0].output.dense.weight, float("nan"))
    broken.save_pretrained(copy_model("broken2"))
    assert sentence in error_of(settings, get_run, make_run(model="broken2", regularizer=regularizer, zeta=0))


@pytest.mark.parametrize(("changes", "sentence"), ABSENT)
def test_missing_layer_column_or_label_is_refused(make_run, settings, get_run, changes, sentence):
    assert sentence in error_of(settings, get_run, make_run(**changes))


def test_missing_file_is_refused(settings, sessions, dataset_id, make_run, get_run):
    with sessions() as session:
        open_storage(settings).delete(session.get(Dataset, dataset_id).train_sha256)
    assert error_of(settings, get_run, make_run()).endswith(" of 'tiny' is gone from the storage; upload it again.")


def test_unexpected_error_is_logged_with_traceback(make_run, settings, get_run, monkeypatch):
    monkeypatch.setattr(trainer, "set_seed", raising(ArithmeticError("two\nlines")))
    run_id = make_run()
    assert error_of(settings, get_run, run_id) == "ArithmeticError: two lines"
    log = get_run(run_id).log
    assert "Traceback (most recent call last)" in log
    assert log.endswith("ArithmeticError: two\nlines")


def test_out_of_memory_is_reported(make_run, settings, get_run, monkeypatch):
    monkeypatch.setattr(trainer, "set_seed", raising(MemoryError()))
    assert "There was not enough memory. Take fewer rows" in error_of(settings, get_run, make_run())


def test_hub_dataset_may_be_away_lack_columns_or_name_its_labels(
    sessions, dataset_id, make_run, train, settings, get_run, monkeypatch
):
    names = ["negative", "positive"]
    with sessions.begin() as session:
        dataset = session.get(Dataset, dataset_id)
        dataset.origin, dataset.hub_name = DatasetOrigin.HUB, "sst2"
    monkeypatch.setattr(datasets, "load_dataset", raising(ConnectionError("away")))
    assert "GLUE SST-2 could not be loaded from the Hub (away)" in error_of(
        settings, get_run, make_run(label_names=names)
    )
    rows = datasets.Dataset.from_dict({"sentence": ["a good film", "a bad film"] * 20, "label": [1, 0] * 20})
    split = rows.cast_column("label", datasets.ClassLabel(names=names))
    monkeypatch.setattr(datasets, "load_dataset", lambda *_, **__: {"train": split, "validation": split})
    sentence = error_of(settings, get_run, make_run(text_columns=["question"], label_names=names))
    assert "Expected columns ['question', 'label'], but the data set has ['sentence', 'label']" in sentence
    assert train(label_names=names, epochs=1).environment["dataset"]["name"] == "sst2"


def raising(error):
    def function(*_, **__):
        raise error

    return function


def limit_batches(monkeypatch, rows, error, from_step=0):
    """Raise an error for batches of more rows, from a step on; return the batch sizes."""
    loss = IsotropyTrainer.compute_loss
    sizes = []

    def compute_loss(self, model, inputs, *args, **keywords):
        sizes.append(len(inputs["labels"]))
        if self.state.global_step >= from_step and len(inputs["labels"]) > rows:
            raise error
        return loss(self, model, inputs, *args, **keywords)

    monkeypatch.setattr(IsotropyTrainer, "compute_loss", compute_loss)
    return sizes


@pytest.mark.parametrize("error", KINDS)
def test_batch_is_halved_and_noted(train, monkeypatch, error):
    sizes = limit_batches(monkeypatch, 8, error)
    run = train(epochs=1)
    assert run.notes == [
        "Memory ran out with 16 rows per batch. From step 1 on, each batch has 8 rows, and each step averages 2 "
        "batches instead of 1, so that it still uses the same number of rows. From then on, each penalty is computed "
        "on 8 rows instead of 16, which changes its value."
    ]
    assert run.environment["batches"] == {"batch_size": 8, "accumulation": 2, "processes": 1, "rows_per_step": 16}
    assert run.config.batch_size == 16
    assert sizes == [16, *[8] * 7, 4]
    assert [step.step for step in run.steps] == [0, 1, 2, 3, 4]
    assert "Traceback" in run.log


def test_training_continues_from_checkpoint_with_smaller_batch(frequent_settings, make_run, get_run, monkeypatch):
    sizes = limit_batches(monkeypatch, 8, KINDS[0], from_step=2)
    run_id = make_run(epochs=1, regularizer="none", lam=0)
    fine_tune(run_id, frequent_settings, "cpu")
    run = get_run(run_id)
    assert sizes == [16, 16, 16, 8, 8, 8, 4]
    assert run.notes[0].startswith("Memory ran out with 16 rows per batch. From step 3 on, each batch has 8 rows")
    assert [step.step for step in run.steps] == [0, 1, 2, 3, 4]


def test_steps_before_failure_are_written(settings, make_run, get_run, monkeypatch):
    limit_batches(monkeypatch, 0, RuntimeError("lost"), from_step=3)
    fine_tune(run_id := make_run(epochs=1), settings, "cpu")
    assert [step.step for step in get_run(run_id).steps] == [0, 1, 2, 3]


@pytest.mark.parametrize("where", ["load_model", "compute_loss"])
def test_run_out_of_memory_beside_others_goes_on_alone(frequent_settings, make_run, get_run, train, monkeypatch, where):
    config = {"epochs": 1, "regularizer": "none", "lam": 0}
    undisturbed = train(**config)
    run_id, neighbor_id = make_run(**config), make_run(**config)
    slot = slot_name(frequent_settings, "cpu")
    with job_sessions(frequent_settings).begin() as session:
        for row_id in (neighbor_id, run_id):
            begin_attempt(session, row_id, slot)
    with monkeypatch.context() as patches:
        if where == "load_model":
            patches.setattr("workers.training.training.load_model", raise_out_of_memory)
        else:
            loss = IsotropyTrainer.compute_loss
            patches.setattr(IsotropyTrainer, "compute_loss", lambda self, *arguments, **keywords: (
                raise_out_of_memory() if self.state.global_step == 2 else loss(self, *arguments, **keywords)
            ))  # fmt: skip
        fine_tune(run_id, frequent_settings, "cpu")
    run = get_run(run_id)
    assert (run.status, run.worker, run.whole_device) == (RunStatus.QUEUED, None, True)
    with job_sessions(frequent_settings).begin() as session:
        assert session.get_one(Attempt, (run_id, 1)).outcome is AttemptOutcome.FAILED
        begin_attempt(session, run_id, slot)
    fine_tune(run_id, frequent_settings, "cpu")
    assert outcome(get_run(run_id)) == outcome(undisturbed)
    assert get_run(run_id).notes == [SHARED_MEMORY_NOTE]


def raise_out_of_memory(*_, **__):
    raise KINDS[0]


def test_second_out_of_memory_error_fails_the_run(settings, make_run, get_run, monkeypatch):
    sizes = limit_batches(monkeypatch, 4, KINDS[0])
    run_id = make_run(epochs=1)
    fine_tune(run_id, settings, "cpu")
    run = get_run(run_id)
    assert sizes == [16, 8]
    assert run.status is RunStatus.FAILED
    assert run.error.startswith("There was not enough memory. Take fewer rows")
    assert len(run.notes) == 1
    assert run.log.count("CUDA out of memory") >= 2
    assert list(settings.runs.iterdir()) == []


def test_killed_run_keeps_smaller_batch(settings, sessions, train, get_run, monkeypatch):
    sizes = limit_batches(monkeypatch, 8, KINDS[0])
    run = train(epochs=1)
    with sessions.begin() as session:  # as if it was killed before its end
        session.get(Run, run.id).status = RunStatus.RUNNING
    sizes.clear()
    fine_tune(run.id, settings, "cpu")
    assert sizes == [*[8] * 7, 4]
    assert get_run(run.id).notes == run.notes


@pytest.fixture
def lose_device(monkeypatch):
    """Make training fail as on a GPU; a new process then gets these devices, or this error."""

    def lose_device(answer, error=GPU_ERROR):
        def compute_loss(*_, **__):
            raise error

        def ask_torch():
            if isinstance(answer, Exception):
                raise answer
            return answer

        monkeypatch.setattr(IsotropyTrainer, "compute_loss", compute_loss)
        monkeypatch.setattr(failure, "ask_torch", ask_torch)

    return lose_device


@pytest.mark.parametrize("error", [GPU_ERROR, NO_GPU])
@pytest.mark.parametrize("answer", [[TorchDevice("cpu")], UnavailableError("Torch is installed and does not start.")])
def test_run_on_lost_device_is_not_failed(settings, make_run, get_run, lose_device, answer, error):
    lose_device(answer, error)
    run_id = make_run()
    with pytest.raises(DeviceLostError):
        fine_tune(run_id, settings, "cpu")
    run = get_run(run_id)
    assert (run.status, run.error) == (RunStatus.RUNNING, None)


def raise_lost_device(*_):
    raise DeviceLostError


def test_process_on_lost_device_has_its_exit_code(settings):
    kind = dataclasses.replace(CURVE, work=f"{__name__}:{raise_lost_device.__name__}")
    assert asyncio.run(JobProcesses(settings, "cpu").run(Job(kind, "row"))) == DEVICE_LOST


def test_error_on_working_device_fails_run(settings, make_run, get_run, lose_device):
    lose_device([TorchDevice("cuda:0"), TorchDevice("cpu")])
    fine_tune(run_id := make_run(), settings, "cpu")
    run = get_run(run_id)
    assert (run.status, run.error) == (RunStatus.FAILED, f"AcceleratorError: {GPU_ERROR}")


def test_run_never_falls_back_to_cpu(settings, make_run):
    with pytest.raises(DeviceLostError):
        fine_tune(make_run(), settings, "xpu")  # which this machine lacks
