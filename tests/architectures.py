"""Configurations of tiny models, one per tested architecture: two layers, sixteen dimensions."""

import transformers

TINY = {"vocab_size": 50, "pad_token_id": 0, "problem_type": "single_label_classification", "num_labels": 2}
ENCODER = {
    **TINY, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32,
    "max_position_embeddings": 32, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip

ARCHITECTURES: dict[str, transformers.PreTrainedConfig] = {
    "bert": transformers.BertConfig(**ENCODER),
    "albert": transformers.AlbertConfig(**ENCODER, embedding_size=8),
    "distilbert": transformers.DistilBertConfig(
        **TINY, dim=16, n_layers=2, n_heads=2, hidden_dim=32, max_position_embeddings=32
    ),
    "roberta": transformers.RobertaConfig(**ENCODER),
    "gpt2": transformers.GPT2Config(
        **TINY, n_embd=16, n_layer=2, n_head=2, n_positions=32, bos_token_id=1, eos_token_id=1
    ),
    "modernbert": transformers.ModernBertConfig(**ENCODER, cls_token_id=1, sep_token_id=2, classifier_pooling="cls"),
}
