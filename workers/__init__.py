"""Processes that take jobs: inspect an upload, measure it, compute a curve, fine-tune a model.

A job is a function of a row's id, the settings and a device. It opens its own sessions, writes its results or its
failure into the row, and returns the follow-up jobs, if any. Only a kill or a temporary error, such as a full disk,
leaves a row unfinished; then the same function is called again with the same id.
"""
