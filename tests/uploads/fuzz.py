"""A fuzzer of the readers of uploads: ``python -m tests.uploads.fuzz x.npy -max_total_time=60``.

It fails at any error that is not a sentence for the user. Options after the name go to libFuzzer. tests/long fuzzes
the formats read by C libraries (parquet, hdf5), in a process that may die.
"""

import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["isoscope.files"]):
    from isoscope.core.errors import IsoscopeError
    from isoscope.files.matrix import Inspection, inspect
    from isoscope.files.upload import NamedFile, Upload

from tests.uploads.good import GOOD


def main() -> None:
    name = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        corpus = Path(folder, "corpus")
        corpus.mkdir()
        (corpus / name).write_bytes(GOOD[name])
        path = Path(folder, "upload")
        upload = Upload((NamedFile(path, name),))

        def read(content: bytes) -> None:
            path.write_bytes(content)
            try:
                inspection = inspect(upload)
            except IsoscopeError:
                return
            assert Inspection.model_validate_json(inspection.model_dump_json()) == inspection

        limits = ["-timeout=20", "-rss_limit_mb=2048", f"-artifact_prefix={tempfile.gettempdir()}/"]
        atheris.Setup([sys.argv[0], str(corpus), *limits, *sys.argv[2:]], read)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
