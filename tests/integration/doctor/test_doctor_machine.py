"""Folders, devices, models, access and port."""

import os
import socket
import sys
import tempfile
from pathlib import Path

import pytest

from app.core import process
from app.core.settings import Settings
from app.operations.checks import Level
from app.operations.checks import machine as devices_module
from app.operations.checks.access import access, port
from app.operations.checks.machine import devices, folders, models, storage
from tests.ports import free_port

TOKEN = "5c5b3e1f9a7d2048"


@pytest.fixture
def read_only(tmp_path) -> Path:
    """A folder that this user may not write to; root may write everywhere but in the kernel's own."""
    folder = tmp_path / "read-only"
    folder.mkdir(mode=0o555)
    return folder if os.geteuid() else Path("/sys")


def test_a_folder_with_room_is_fine(settings):
    settings.create_folders()
    data, temporary = folders(settings.model_copy(update={"max_upload_bytes": 1}))
    assert (data.level, temporary.level) == (Level.OK, Level.OK)
    assert data.found.startswith(f"{settings.root} is writable, ")
    assert [path.name for path in settings.root.iterdir() if path.is_file()] == []


def test_a_read_only_data_folder_is_a_problem(read_only):
    data = next(folders(Settings(data_dir=read_only)))
    assert data.level is Level.PROBLEM
    assert data.found.startswith(f"{read_only} cannot be written to: ")
    assert data.advice == "Give this user the folder, or name another one in ISOSCOPE_DATA_DIR."


def test_a_file_in_place_of_the_data_folder_is_a_problem(tmp_path):
    (tmp_path / "data").touch()
    data = next(folders(Settings(data_dir=tmp_path / "data")))
    assert (data.level, data.found) == (Level.PROBLEM, f"{tmp_path}/data cannot be written to: Not a directory.")


def test_little_room_is_a_warning(settings):
    settings.create_folders()
    found = list(folders(settings.model_copy(update={"max_upload_bytes": 10**18})))
    assert [(one.check, one.level) for one in found] == [
        ("data folder", Level.WARNING),
        ("temporary files", Level.WARNING),
    ]
    assert "free, less than twice the largest upload of 1,000,000 TB." in found[0].found


def test_a_missing_folder_of_temporary_files_is_a_warning(settings, tmp_path, monkeypatch):
    settings.create_folders()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "missing"))
    monkeypatch.setattr(tempfile, "tempdir", None)
    finding = list(folders(settings))[1]
    assert finding.level is Level.WARNING
    assert finding.found.startswith(f"TMPDIR is {tmp_path}/missing, which cannot be written to; ")
    assert finding.advice == f"Make the folder: mkdir -p {tmp_path}/missing"


def test_a_machine_without_any_folder_of_temporary_files_is_a_problem(settings, monkeypatch):
    settings.create_folders()
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", list)
    monkeypatch.setattr(tempfile, "tempdir", None)
    finding = list(folders(settings))[1]
    assert (finding.level, finding.found) == (Level.PROBLEM, "No folder for temporary files can be written to.")
    assert finding.advice == "Set TMPDIR to a folder that this user may write to."


def test_storage_is_written_read_and_left_as_it_was(settings):
    settings.create_folders()
    [finding] = storage(settings)
    assert (finding.level, finding.found) == (Level.OK, "A file was written, read back and removed.")
    assert list(settings.files.iterdir()) == []


def test_missing_storage_is_a_problem(settings):
    settings.create_folders()
    settings.files.rmdir()
    [finding] = storage(settings)
    assert finding.level is Level.PROBLEM
    assert finding.found.startswith("A file could not be kept and read back: ")
    assert finding.advice.endswith("isoscope migrate makes missing folders.")


def test_the_device_that_is_there_is_fine(tmp_path):
    [finding] = devices(Settings(data_dir=tmp_path, device="cpu"))
    assert finding.level is Level.OK
    assert "offers cpu" in finding.found


def test_a_device_that_is_not_there_is_a_problem(tmp_path):
    [finding] = devices(Settings(data_dir=tmp_path, device="cuda:99"))
    assert finding.level is Level.PROBLEM
    assert finding.found.startswith("ISOSCOPE_DEVICE is cuda:99, but torch ")
    assert finding.advice.startswith("Choose one of these, or auto")


def test_without_torch_pages_are_served_and_that_is_fine(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    [finding] = devices(Settings(data_dir=tmp_path))
    assert finding.level is Level.OK
    assert finding.found.startswith("Torch is not installed: this installation serves pages")


def test_a_torch_that_does_not_start_is_a_problem(tmp_path, monkeypatch):
    (tmp_path / "torch.py").write_text("raise OSError('libcudart.so: cannot open shared object file')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    [finding] = devices(Settings(data_dir=tmp_path))
    assert finding.level is Level.PROBLEM
    assert finding.found == (
        "Torch is installed and does not start: OSError: libcudart.so: cannot open shared object file."
    )


def test_a_torch_that_hangs_is_a_problem(tmp_path, monkeypatch):
    (tmp_path / "torch.py").write_text("import time; time.sleep(60)")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(devices_module, "SECONDS", 0.5)
    [finding] = devices(Settings(data_dir=tmp_path))
    assert (finding.level, finding.found) == (Level.PROBLEM, "Torch did not start within 0.5 s.")


def test_the_models_directory_is_listed_and_a_broken_folder_named(tmp_path):
    for name, file in (("whole", "config.json"), ("broken", "weights.bin")):
        (tmp_path / name).mkdir()
        (tmp_path / name / file).write_text("{}")
    found = list(models(Settings(data_dir=tmp_path, models_dir=tmp_path)))
    assert found[0].found == "The bundled all-MiniLM-L6-v2 is installed."
    assert found[1].found == f"In {tmp_path}: whole."
    assert (found[2].level, found[2].found) == (
        Level.WARNING,
        f"{tmp_path}/broken has no config.json, so it is not offered.",
    )
    assert found[3].found.startswith("The Hub is ")


def test_a_missing_bundled_model_is_a_warning_where_torch_is(tmp_path, monkeypatch):
    monkeypatch.setattr(process, "PACKAGE", "a_package_that_is_not_installed")
    found = list(models(Settings(data_dir=tmp_path)))
    assert (found[0].level, found[0].found) == (Level.WARNING, "The bundled all-MiniLM-L6-v2 is not installed.")
    assert found[1].found == f"There is no models directory {tmp_path}/models."


@pytest.mark.parametrize(
    ("given", "level", "found"),
    [
        ({}, Level.OK, "127.0.0.1:8000 is reached from this machine alone, without an access token."),
        ({"access_token": TOKEN}, Level.OK,
         "127.0.0.1:8000 is reached from this machine alone, with the access token."),
        ({"access_token": TOKEN, "host": "0.0.0.0"}, Level.OK,
         "0.0.0.0:8000 is reached from other machines, with the access token."),
        ({"access_token": "a" * 16, "host": "0.0.0.0"}, Level.WARNING,
         "The access token of 0.0.0.0:8000 repeats the same few characters, so it could be guessed."),
    ],
)  # fmt: skip
def test_access_says_who_gets_in(given, level, found):
    [finding] = access(Settings(**given))
    assert (finding.level, finding.found) == (level, found)
    assert TOKEN not in str(finding)


@pytest.mark.parametrize("name", ["https://lab.example.org", "lab.example.org:8000"])
def test_a_host_name_that_can_never_match_is_a_warning(name):
    *_, finding = access(Settings(allowed_hosts=[name, "lab.example.org", "fe80::1"]))
    assert finding.level is Level.WARNING
    assert finding.found == f"ISOSCOPE_ALLOWED_HOSTS has {name!r}, which no request's name can equal."


def test_a_free_port_is_fine():
    number = free_port()
    [finding] = port(Settings(port=number))
    assert (finding.level, finding.found) == (Level.OK, f"127.0.0.1:{number} is free; no Isoscope runs there.")


def test_a_port_that_something_else_has_is_a_problem():
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        other.settimeout(0)
        number = other.getsockname()[1]
        [finding] = port(Settings(port=number))
    assert finding.level is Level.PROBLEM
    assert finding.found == f"Something that is no Isoscope listens at 127.0.0.1:{number}."
    assert finding.advice == "Stop it, or choose another port: ISOSCOPE_PORT=8001"


def test_an_address_of_another_machine_is_a_problem():
    [finding] = port(Settings(host="192.0.2.1", access_token=TOKEN))
    assert finding.level is Level.PROBLEM
    assert finding.found.startswith("Nobody can listen at 192.0.2.1:8000 here: ")


def test_a_running_isoscope_is_recognized(address):
    number = int(address.rpartition(":")[2])
    [finding] = port(Settings(port=number))
    assert (finding.level, finding.found) == (Level.OK, f"An Isoscope answers at 127.0.0.1:{number}.")
