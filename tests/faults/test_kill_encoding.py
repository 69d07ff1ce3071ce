"""kill -9, Ctrl-C and Cancel during an encoding: it ends once and leaves no orphaned file."""

import pytest

TEXTS = "".join(f"the {'good' if i % 2 else 'bad'} film {i} was so very great and dull\n" for i in range(20_000))
CONFIG = {"model": "tiny-bert", "text_columns": ["line"], "layers": [1, 2], "max_rows": None, "batch_size": 1}


@pytest.fixture
def encoding(serving, models_dir):
    server = serving(ISOSCOPE_MODELS_DIR=str(models_dir))
    draft = server.post("/api/encodings", files={"file": ("t.txt", TEXTS.encode())})
    path = f"/api/encodings/{draft['id']}"
    server.post(f"{path}/launch", json=CONFIG)
    server.wait_for(lambda: server.get(path)["done"] > 0, "the first texts")
    return server, path


@pytest.mark.long
def test_encoding_restarts_after_kill_and_stops_on_cancel(encoding):
    server, path = encoding
    begun = server.get(path)["started_at"]
    server.child("multiprocessing.forkserver").kill()
    server.wait_for(lambda: server.get(path)["started_at"] != begun, "another attempt, after its process was killed")
    begun = server.get(path)["started_at"]
    assert server.stop() == 0
    server.start()
    server.wait_for(lambda: server.get(path)["started_at"] != begun, "another attempt, after Ctrl-C")

    assert server.post(f"{path}/cancel")["status"] == "cancelled"
    server.post(f"{path}/launch", json=CONFIG | {"max_rows": 50, "batch_size": 16})
    server.wait_for(lambda: server.get(path)["status"] == "finished", "the end of a smaller one", seconds=60)
    layers = server.get(f"{path}/layers")
    assert [row["layer"] for row in layers] == [1, 2]
    embeddings = [server.get(f"/api/embeddings/{row['embedding_id']}") for row in layers]
    recorded_files = {file["file_sha256"] for row in embeddings for file in row["files"]}
    stored_files = {file.name for file in (server.data_dir / "files").iterdir()}
    assert len(stored_files - recorded_files) == 1, "only the texts"
    assert server.stop() == 0
