import os
import socket
import sys
from pathlib import Path

import pytest

from app.core import devices, process
from app.core.settings import Settings
from app.operations import doctor
from app.operations.doctor import (
    OK,
    PROBLEM,
    WARNING,
    check_access,
    check_devices,
    check_folders,
    check_sandbox,
    check_storage,
)
from tests.ports import free_port

TOKEN = "5c5b3e1f9a7d2048"


def test_free_folder_is_fine_and_storage_unchanged(settings):
    settings.create_folders()
    data, temporary = check_folders(settings.model_copy(update={"max_upload_bytes": 1}))
    assert (data[0], temporary[0]) == (OK, OK)
    assert data[1].startswith(f"{settings.root} is writable, ")
    assert [path.name for path in settings.root.iterdir() if path.is_file()] == []
    results = list(check_folders(settings.model_copy(update={"max_upload_bytes": 10**18})))
    assert [result[0] for result in results] == [WARNING, WARNING]
    assert "free, less than twice the largest upload of 1,000,000 TB." in results[0][1]
    assert list(check_storage(settings)) == [(OK, "A file was written, read back and removed.")]
    assert list(settings.files.iterdir()) == []
    settings.files.rmdir()
    [(level, sentence, advice)] = check_storage(settings)
    assert level == PROBLEM
    assert sentence.startswith("A file could not be kept and read back: ")
    assert advice.endswith("isoscope migrate makes missing folders.")


def test_read_only_or_file_data_folder_is_problem(tmp_path):
    folder = tmp_path / "read-only"
    folder.mkdir(mode=0o555)
    read_only = folder if os.geteuid() else Path("/sys")  # root can write everywhere but here
    level, sentence, advice = next(check_folders(Settings(data_dir=read_only)))
    assert level == PROBLEM
    assert sentence.startswith(f"{read_only} cannot be written to: ")
    assert advice == "Give this user the folder, or name another one in ISOSCOPE_DATA_DIR."
    (tmp_path / "data").touch()
    level, sentence, _ = next(check_folders(Settings(data_dir=tmp_path / "data")))
    assert (level, sentence) == (PROBLEM, f"{tmp_path}/data cannot be written to: Not a directory.")


@pytest.mark.sandbox
def test_sandbox_warns_without_kernel_protection(settings, monkeypatch):
    monkeypatch.setattr(doctor, "missing_protections", list)
    assert list(check_sandbox(settings)) == [(OK, "Uploads are parsed without secrets, network and other files.")]
    monkeypatch.setattr(doctor, "missing_protections", lambda: ["Landlock", "seccomp"])
    [(level, sentence, _)] = check_sandbox(settings)
    assert level == WARNING
    assert sentence.endswith("this system has no Landlock and no seccomp to confine parsers.")


def test_absent_device_is_problem_and_missing_model_or_torch_is_not(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(process, "BUNDLED_PACKAGE", "a_package_that_is_not_installed")
        devices, model = check_devices(Settings(data_dir=tmp_path, device="cpu"))
    assert devices[0] == OK
    assert "offers cpu" in devices[1]
    assert model[:2] == (WARNING, "The bundled all-MiniLM-L6-v2 is not installed.")
    [(level, sentence, advice)] = check_devices(Settings(data_dir=tmp_path, device="cuda:99"))
    assert level == PROBLEM
    assert sentence.startswith("ISOSCOPE_DEVICE is cuda:99, but torch offers cpu")
    assert advice.startswith("Choose one of these, or auto")
    monkeypatch.setitem(sys.modules, "torch", None)
    [(level, sentence)] = check_devices(Settings(data_dir=tmp_path))
    assert level == OK
    assert sentence.startswith("Torch is not installed: this installation serves pages")


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("raise OSError('libcudart.so: cannot open shared object file')", "OSError: libcudart.so: cannot open shared"),
        ("import time; time.sleep(60)", "timed out after 0.5 seconds"),
    ],
)
def test_broken_torch_is_problem(tmp_path, monkeypatch, code, reason):
    (tmp_path / "torch.py").write_text(code)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    if "sleep" in code:
        monkeypatch.setattr(devices, "TORCH_SECONDS", 0.5)
    [(level, sentence, _)] = check_devices(Settings(data_dir=tmp_path))
    assert level == PROBLEM
    assert sentence.startswith("Torch is installed and does not start: ")
    assert reason in sentence


def test_access_check_names_audience_and_used_port():
    for values, level, sentence in (
        ({}, OK, "is reached from this machine only, without an access token."),
        ({"access_token": TOKEN}, OK, "is reached from this machine only, with the access token."),
        ({"access_token": TOKEN, "host": "0.0.0.0"}, OK, "is reached from other machines, with the access token."),
        ({"access_token": "a" * 16, "host": "0.0.0.0"}, WARNING, "repeats the same few characters"),
        ({"allowed_hosts": ["https://lab.example.org"]}, WARNING, "which no request can match."),
        ({"allowed_hosts": ["lab.example.org:8000"]}, WARNING, "which no request can match."),
        ({"host": "192.0.2.1", "access_token": TOKEN}, PROBLEM, "This machine cannot listen at 192.0.2.1:"),
    ):
        results = list(check_access(Settings(port=free_port(), **values)))
        assert [result[0] for result in results if sentence in result[1]] == [level]
        assert TOKEN not in str(results)
    assert len(list(check_access(Settings(port=free_port(), allowed_hosts=["lab.example.org", "fe80::1"])))) == 1
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        number = listener.getsockname()[1]
        results = list(check_access(Settings(port=number)))
    assert results[-1] == (OK, f"Isoscope, or something else, listens at 127.0.0.1:{number}.")
