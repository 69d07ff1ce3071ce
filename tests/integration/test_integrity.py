import sqlite3

import pytest

from app.db.failures import check_after_crash, require_intact
from isoscope.core.errors import ConflictError


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "rows.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("create table rows (id integer primary key, words text)")
        connection.execute("create index by_words on rows (words)")
        connection.executemany("insert into rows (words) values (?)", [(f"{n} " * 50,) for n in range(2000)])
    connection.close()
    return path


def damage(path):
    content = bytearray(path.read_bytes())
    for start in range(8192, len(content), 4096):
        content[start : start + 64] = b"\xff" * 64
    path.write_bytes(content)


def test_database_is_checked_after_crash_and_damage_rejected(file, tmp_path):
    mark, url = tmp_path / "running", f"sqlite:///{file}"
    require_intact(url)
    require_intact(f"sqlite:///{file.parent}/not there")
    assert not (file.parent / "not there").exists()
    require_intact("postgresql+psycopg://nobody@localhost/nothing")
    with pytest.raises(KeyboardInterrupt), check_after_crash(mark, url):
        raise KeyboardInterrupt
    with check_after_crash(mark, url):
        damage(file)
    assert not mark.exists(), "an orderly exit needs no check"
    with check_after_crash(mark, url), pytest.raises(ConflictError), check_after_crash(mark, url):
        pass
    with pytest.raises(ConflictError, match=r"rows\.sqlite is damaged: .*Restore it from a backup\."):
        require_intact(url)
