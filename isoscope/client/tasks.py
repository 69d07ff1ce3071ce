"""Tasks that judge an embedding's vectors over the API."""

import time
from pathlib import Path
from typing import Any

from isoscope.client.connection import Connection, Progress, Reference, Row, id_of, path_of
from isoscope.client.data import BUSY, LOOK_EVERY_SECONDS
from isoscope.core.errors import InvalidError


class Tasks(Connection):
    """Which post-processing, dimensions and storage to take, by the user's own task."""

    def judge(
        self,
        embedding: Reference,
        kind: str,
        file: str | Path | None = None,
        *,
        queries: Reference | None = None,
        progress: Progress | None = None,
        **settings: Any,
    ) -> Row:
        """Have variants of an embedding's vectors judged by ground truth; ``kind`` says what that is.

        ``"queries"`` takes a file of relevant documents and the embedding of the queries, ``"pairs"`` a file of pairs
        with scores, ``"labels"`` a column, ``"compression"`` nothing. Settings are those of the form: ``similarity``,
        ``metric``, ``labels``, ``groups``, ``ids``, ``query_ids``, ``seed``, ``tolerance``, ``full``; with
        ``launch=False`` it stays a draft. Qrels that came with the encoded texts, of a BEIR data set, need neither file
        nor queries: ``split`` names them.

        >>> task = isoscope.judge(corpus, "queries", "qrels.tsv", queries=queries)
        >>> print(isoscope.wait_for_task(task)["results"]["conclusion"])
        >>> isoscope.judge(corpus, "queries", split="test")["preview"]["used"]
        339
        """
        form = {"kind": kind, "queries_id": None if queries is None else id_of(queries), **settings}
        fields = {name: _text(value) for name, value in form.items() if value is not None}
        if file is None:
            return self.post("embeddings", embedding, "tasks", data=fields)
        path = path_of("embeddings", embedding, "tasks")
        return self.send_files(path, [("file", file)], dict(fields), progress)

    def tasks(self, embedding: Reference, *, limit: int = 100, offset: int = 0) -> list[Row]:
        """Return the tasks of an embedding, newest first, with the conclusion of each that has finished."""
        return self.get_list("embeddings", embedding, "tasks", limit=limit, offset=offset)

    def task(self, task: Reference) -> Row:
        """Return one task, with results when its ``status`` is ``finished``."""
        return self.get("tasks", task)

    def wait_for_task(self, task: Reference) -> Row:
        """Return a task once it has ended; raise with its error where it failed."""
        while (row := self.task(task))["status"] in BUSY:
            time.sleep(LOOK_EVERY_SECONDS)
        if row["status"] == "failed":
            raise InvalidError(f"The task failed: {row['error']}")
        return row

    def launch_task(self, task: Reference) -> Row:
        """Hand a draft to the workers, or again a task that failed or was cancelled."""
        return self.post("tasks", task, "launch")

    def judge_others(self, task: Reference, *embeddings: Reference) -> Row:
        """Judge other embeddings of the same rows by a task; without any, every other layer of its encoding or file.

        Queries are those of the same model and layer. Returns the family, with ``left_out``.
        """
        members = [{"embedding_id": id_of(embedding)} for embedding in embeddings]
        return self.post("tasks", task, "others", json={"others": members or None})

    def task_family(self, task: Reference) -> Row:
        """Return the embeddings judged by the same task: ``members``, and the rank ``relation`` over them."""
        return self.get("tasks", task, "family")

    def cancel_task(self, task: Reference) -> Row:
        """Stop a task that waits or runs."""
        return self.post("tasks", task, "cancel")

    def delete_task(self, task: Reference) -> None:
        """Delete a task with its ground truth and maps."""
        self.delete("tasks", task)

    def download_task_map(self, task: Reference, target: str | Path, which: str = "chosen") -> Path:
        """Write the map of the chosen or the smallest variant; the task's ``maps`` has the NumPy that applies it."""
        return self.download(path_of("tasks", task, "map.safetensors"), target, params={"which": which})

    def keep_task_map(self, task: Reference, which: str = "chosen", name: str | None = None, of: str = "corpus") -> Row:
        """Make a new embedding of the task's corpus or queries by the map of the chosen or the smallest variant.

        >>> isoscope.keep_task_map(task)["status"]
        'making'
        """
        return self.post("tasks", task, "embedding", json={"which": which, "name": name, "of": of})

    def figure_of_task(self, task: Reference, slug: str) -> Row:
        """Return a figure of a task: ``isotropy`` or ``bytes``, or ``embeddings`` where it judged several."""
        return self.get("tasks", task, "figures", slug)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
