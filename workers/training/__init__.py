"""Fine-tuning with an isotropy regularizer: one run, from its row to its row."""
