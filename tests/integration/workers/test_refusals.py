import datasets
import pytest
import torch
from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError, RepositoryNotFoundError
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

from app.core.process import BUNDLED_MODEL, bundled_folder
from app.db.models import Dataset, DatasetOrigin, RunStatus
from app.storage import open_storage
from isoscope.core.errors import InvalidError
from workers import models
from workers.training import trainer
from workers.training.job import fine_tune


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


@pytest.fixture
def not_a_number(copy_model):
    broken = BertForSequenceClassification(BertConfig.from_pretrained(copy_model("broken")))
    torch.nn.init.constant_(broken.bert.encoder.layer[0].output.dense.weight, float("nan"))
    broken.save_pretrained(copy_model("broken2"))
    return "broken2"


NO_POINTS = "The penalty has no value at step 1. Expected finite points"
NO_LOSS = "became NaN or infinite at step 1. Lower the learning rate"
NAN = {"none": NO_LOSS, "istar": NO_POINTS, "istar_unbiased": NO_POINTS, "cosreg": NO_POINTS, "entropy": NO_POINTS,
       "spectrum": NO_LOSS}  # fmt: skip


@pytest.mark.parametrize(("regularizer", "sentence"), NAN.items())
def test_nan_loss_is_refused(make_run, settings, get_run, not_a_number, regularizer, sentence):
    assert sentence in error_of(settings, get_run, make_run(model=not_a_number, regularizer=regularizer, zeta=0))


ABSENT = [
    ({"layers": [1, 3]}, "'tiny-bert' has layers 1 to 2, got [1, 3]"),
    ({"text_columns": ["headline"]}, "headline"),
    ({"label_names": ["1", "2"]}, "has the label '0' in column 'label'; expected one of 1, 2."),
]


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


@pytest.mark.parametrize(
    "error", [MemoryError(), torch.OutOfMemoryError("CUDA"), RuntimeError("DefaultCPUAllocator: can't allocate memory")]
)
def test_out_of_memory_is_reported(make_run, settings, get_run, monkeypatch, error):
    monkeypatch.setattr(trainer, "set_seed", raising(error))
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
