from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def database(models_dir: Path, postgresql_url: str) -> dict[str, Any]:
    return {"models_dir": models_dir, "database_url": postgresql_url}
