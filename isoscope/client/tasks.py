"""Tasks that evaluate embeddings over the API."""

import time
from pathlib import Path
from typing import Any

from isoscope.client.connection import Connection, Progress, Reference, Row, id_of, path_of
from isoscope.client.data import BUSY_STATUSES, POLL_SECONDS
from isoscope.core.errors import InvalidError


class Tasks(Connection):
    """Tasks that choose post-processing, dimensions and storage."""

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
        """Evaluate variants of an embedding's vectors on ground truth of a ``kind``.

        ``"queries"`` takes a file of relevant documents and the embedding of the queries, ``"pairs"`` a file of pairs
        with scores, ``"labels"`` a column, ``"compression"`` nothing. Settings are those of the form: ``similarity``,
        ``metric``, ``labels``, ``groups``, ``ids``, ``query_ids``, ``seed``, ``tolerance``, ``full``; with
        ``launch=False`` it stays a draft. For encoded BEIR data sets ``split`` names the qrels.

        >>> task = isoscope.judge(corpus, "queries", "qrels.tsv", queries=queries)
        >>> print(isoscope.wait_for_task(task)["results"]["conclusion"])
        """
        form = {"kind": kind, "queries_id": None if queries is None else id_of(queries), **settings}
        fields = {
            name: (str(value).lower() if isinstance(value, bool) else str(value))
            for name, value in form.items()
            if value is not None
        }
        if file is None:
            return self.post("embeddings", embedding, "tasks", data=fields)
        path = path_of("embeddings", embedding, "tasks")
        return self.send_files(path, [("file", file)], dict(fields), progress)

    def tasks(self, embedding: Reference, *, limit: int = 100, offset: int = 0) -> list[Row]:
        """Return the tasks of an embedding, newest first."""
        return self.get_list("embeddings", embedding, "tasks", limit=limit, offset=offset)

    def task(self, task: Reference) -> Row:
        """Return one task, with results when its ``status`` is ``finished``."""
        return self.get("tasks", task)

    def wait_for_task(self, task: Reference) -> Row:
        """Return a task once it has ended; raise InvalidError if it failed."""
        while (row := self.task(task))["status"] in BUSY_STATUSES:
            time.sleep(POLL_SECONDS)
        if row["status"] == "failed":
            raise InvalidError(f"The task failed: {row['error']}")
        return row

    def launch_task(self, task: Reference) -> Row:
        """Launch a draft, or again a task that failed or was cancelled."""
        return self.post("tasks", task, "launch")

    def judge_others(self, task: Reference, *embeddings: Reference) -> Row:
        """Evaluate other embeddings of the same rows, by default every other layer; return the family."""
        members = [{"embedding_id": id_of(embedding)} for embedding in embeddings]
        return self.post("tasks", task, "others", json={"others": members or None})

    def possible_tasks(self, embedding: Reference) -> list[Row]:
        """Return tasks of other embeddings of the same rows; ``judge_others(task["task_id"], embedding)`` judges it."""
        return self.get_list("embeddings", embedding, "tasks", "possible")

    def task_family(self, task: Reference) -> Row:
        """Return the embeddings of the same task: ``members``, and the rank ``relation`` over them."""
        return self.get("tasks", task, "family")

    def cancel_task(self, task: Reference) -> Row:
        return self.post("tasks", task, "cancel")

    def delete_task(self, task: Reference) -> None:
        self.delete("tasks", task)

    def download_task_map(self, task: Reference, target: str | Path, which: str = "chosen") -> Path:
        """Write the map of the chosen or the smallest variant; the task's ``maps`` has the NumPy that applies it."""
        return self.download(path_of("tasks", task, "map.safetensors"), target, params={"which": which})

    def keep_task_map(self, task: Reference, which: str = "chosen", name: str | None = None, of: str = "corpus") -> Row:
        """Create an embedding of the task's corpus or queries by the map of the chosen or the smallest variant."""
        return self.post("tasks", task, "embedding", json={"which": which, "name": name, "of": of})

    def figure_of_task(self, task: Reference, slug: str) -> Row:
        """Return a figure of a task: ``isotropy`` or ``bytes``, or ``embeddings`` for several."""
        return self.get("tasks", task, "figures", slug)
