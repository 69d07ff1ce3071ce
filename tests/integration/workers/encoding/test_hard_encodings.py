import shutil

import pytest
import torch
import transformers
from tokenizers import normalizers

from app.db.models import EncodingStatus
from tests.encodings import FULL, TEXTS, assert_vectors, encode_individually
from tests.tiny import make_tokenizer
from workers.embeddings import encoder
from workers.embeddings.encoding import encode_texts
from workers.models import max_input_length


@pytest.mark.parametrize("step", ["_forward", "pool"])
def test_batch_is_halved_once_if_memory_runs_out(settings, make_encoding, get_encoding, error_of, monkeypatch, step):
    where, position = (encoder, 0) if step == "pool" else (encoder.Encoder, 2)
    real = getattr(where, step)

    def limit_batches(largest):
        def limited(*arguments):
            if len(arguments[position]) > largest:
                raise torch.OutOfMemoryError("CUDA")
            return real(*arguments)

        monkeypatch.setattr(where, step, limited)

    limit_batches(2)
    encode_texts(encoding_id := make_encoding(batch_size=4), settings, "cpu")
    encoding = get_encoding(encoding_id)
    assert (encoding.status, encoding.environment["batch_size"]) == (EncodingStatus.FINISHED, 2)
    limit_batches(1)
    assert "There was not enough memory. Take fewer rows" in error_of(make_encoding(batch_size=4))


def test_unusable_models_are_refused(make_encoding, error_of, copy_model, models_dir):
    transformers.T5Model(
        transformers.T5Config(vocab_size=18, d_model=16, d_kv=8, d_ff=32, num_layers=1, num_heads=2)
    ).save_pretrained(copy_model("both"))
    assert "which encoder-decoder models do not" in error_of(make_encoding(model="both"))

    deeper = transformers.BertConfig.from_pretrained(copy_model("shallow"))
    deeper.num_hidden_layers = 3
    deeper.save_pretrained(models_dir / "shallow")
    sentence = error_of(make_encoding(model="shallow"))
    assert "The files of 'shallow' lack 16 of its weights, such as encoder.layer.2.attention" in sentence

    (copy_model("strange") / "config.json").write_text('{"model_type": "strange"}')
    assert "The model 'strange' cannot be loaded to encode texts: " in error_of(make_encoding(model="strange"))

    broken = transformers.BertModel(transformers.BertConfig.from_pretrained(copy_model("broken")))
    torch.nn.init.constant_(broken.encoder.layer[1].output.dense.weight, float("nan"))
    broken.save_pretrained(models_dir / "broken")
    make_tokenizer().save_pretrained(models_dir / "broken")
    assert "'broken' gives NaN or infinity for row 5 at layer 2" in error_of(make_encoding(model="broken"))


def test_missing_layers_columns_or_disk_space_are_reported(make_encoding, error_of, monkeypatch, settings):
    assert "'tiny-bert' has layers 0 to 2, got 3." in error_of(make_encoding(layers=[1, 3]))
    assert "has no column 'headline'" in error_of(make_encoding(text_columns=["headline"]))
    monkeypatch.setattr("app.db.encoding.MAX_EMBEDDINGS", 2)
    assert "Expected at most 2 embeddings" in error_of(make_encoding())
    monkeypatch.undo()
    monkeypatch.setattr(encoder.shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10, 9, 1))
    assert "The disk of this worker has 0.0 GB left" in error_of(make_encoding())


def test_longest_text_fits_positions_after_padding_offset(settings, make_encoding, get_encoding, layers_of, save_model):
    config = transformers.RobertaConfig(
        vocab_size=18, pad_token_id=1, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=32, max_position_embeddings=34,
    )  # fmt: skip
    folder = save_model("roberta", transformers.RobertaModel(config))
    encoding_id = make_encoding(f"sentence\n{'good ' * 50}\nbad\n", "rows.csv", model="roberta", layers=[1])
    encode_texts(encoding_id, settings, "cpu")
    assert get_encoding(encoding_id).error is None
    assert get_encoding(encoding_id).environment["max_length"] == 32
    expected = encode_individually(folder, [("good " * 50,), ("bad",)], max_length=32)
    assert assert_vectors(settings, layers_of(encoding_id), expected)


def test_model_without_position_limit_takes_requested_length():
    config = transformers.XLNetConfig(vocab_size=18, d_model=16, n_layer=1, n_head=2, d_inner=32)
    assert max_input_length(transformers.XLNetModel(config), make_tokenizer(), 20) == 20


def test_model_without_mask_is_pooled_without_padding(settings, make_encoding, get_encoding, layers_of, save_model):
    config = transformers.FNetConfig(
        vocab_size=18, hidden_size=16, num_hidden_layers=1, intermediate_size=32, pad_token_id=0
    )
    folder = save_model("unmasked", transformers.FNetModel(config))
    encoding_id = make_encoding(model="unmasked", batch_size=1)
    encode_texts(encoding_id, settings, "cpu")
    assert get_encoding(encoding_id).error is None
    expected = encode_individually(folder, [(TEXTS[i],) for i in FULL])
    assert assert_vectors(settings, layers_of(encoding_id), expected)


def test_text_without_token_is_named_by_its_row(make_encoding, error_of, copy_model):
    folder = copy_model("bare")
    words = transformers.AutoTokenizer.from_pretrained(folder).backend_tokenizer
    words.post_processor = None
    words.normalizer = normalizers.Replace("dull", "")
    transformers.PreTrainedTokenizerFast(tokenizer_object=words, pad_token="[PAD]", unk_token="[UNK]").save_pretrained(
        folder
    )
    content = "sentence\nthe film\ndull\n"
    assert "Row 2 has no token that 'bare' knows" in error_of(make_encoding(content, "rows.csv", model="bare"))
