import re
from hashlib import sha256
from pathlib import Path

from fastapi.testclient import TestClient

from app.web.templating import STATIC, InMemoryFiles

VENDOR = Path(__file__).parents[2] / "frontend" / "static" / "vendor"
NOTICES = (VENDOR / "NOTICES.md").read_text(encoding="utf-8")
CHECKSUMS = dict(re.findall(r"^\| `(\S+)` \| `([0-9a-f]{64})` \|$", NOTICES, flags=re.MULTILINE))


def test_vendored_files_match_checksums_and_have_licenses():
    files = {path.name for path in VENDOR.iterdir()} - {"NOTICES.md"}
    assert {name: sha256((VENDOR / name).read_bytes()).hexdigest() for name in files} == CHECKSUMS
    assert {f"{re.match(r'[a-z]+', name).group()}.LICENSE.txt" for name in files} <= files


def test_every_font_is_declared_once_and_served_as_woff2():
    sheet = (VENDOR.parent / "fonts.css").read_text(encoding="utf-8")
    faces = re.findall(r'src: url\("vendor/([^"]+)"\)', sheet)
    assert sorted(faces) == sorted(name for name in CHECKSUMS if name.endswith(".woff2"))
    assert sheet.count("font-display: swap") == len(faces)
    for face in faces:
        answer = TestClient(InMemoryFiles(directory=STATIC)).get(f"/vendor/{face}")
        assert (answer.status_code, answer.headers["content-type"]) == (200, "font/woff2")
