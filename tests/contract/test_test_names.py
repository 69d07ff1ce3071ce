from collections import Counter
from pathlib import Path


def test_no_two_test_files_share_a_name():
    names = Counter(path.name for path in Path(__file__).parents[1].rglob("test_*.py"))
    assert [name for name, n in names.items() if n > 1] == []
