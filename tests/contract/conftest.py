"""Without torch, only the contracts of the web process are tested."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("torch") else ["test_document_examples.py"]
