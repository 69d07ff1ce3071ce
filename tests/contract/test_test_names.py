from collections import Counter
from pathlib import Path


def test_test_files_have_unique_names():
    names = Counter(path.name for path in Path(__file__).parents[1].rglob("test_*.py"))
    assert [name for name, n in names.items() if n > 1] == []
