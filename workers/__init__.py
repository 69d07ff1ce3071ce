"""Processes that take jobs: inspect an upload, measure it, compute a curve, fine-tune a model.

A job is a function of a row's id, the settings and a device. It opens its own sessions, writes what came of it into
the row, foreseeable failures included, and returns the job to do next, if any. Only a kill leaves a row unfinished;
then the same function is called again with the same id.
"""
