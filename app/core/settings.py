"""Settings, read once from environment variables that start with ``ISOSCOPE_`` and passed down."""

import errno
import os
import re
import stat
from functools import cached_property
from importlib.util import find_spec
from ipaddress import ip_address
from pathlib import Path
from tempfile import TemporaryFile
from typing import NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

from pydantic import Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict, SettingsError

from isoscope.core.errors import ConflictError

EXPECTED_STORAGE = "Expected file:///folder or s3://bucket/prefix"
GIB = 2**30
MIB = 2**20
MIN_TOKEN_CHARACTERS = 16
BUSY_SECONDS = 30
MAX_RUNS_PER_DEVICE = 64
POSTGRESQL = "postgresql"
POSTGRESQL_SCHEMES = (POSTGRESQL, "postgres", "postgresql+psycopg")
# Suffixes of the files of a SQLite database.
SQLITE_SUFFIXES = ("", "-wal", "-shm")
BARE_PERCENT = re.compile(r"%(?![0-9a-fA-F]{2})")


class StorageLocation(NamedTuple):
    """Where uploads are stored: a folder or a bucket; in the data folder if both are None."""

    folder: Path | None = None
    # ``bucket`` or ``bucket/prefix``.
    bucket: str | None = None


def parse_storage_url(url: str) -> StorageLocation:
    """Parse the setting ``storage_url``. Raise ValueError with a sentence that never repeats credentials."""
    if not url:
        return StorageLocation()
    try:
        parts = urlsplit(url)
    except ValueError:
        raise ValueError(f"{EXPECTED_STORAGE}, got one that cannot be read.") from None
    if "@" in (parts.netloc if parts.scheme == "file" else url):
        raise ValueError(
            "The URL holds credentials, which would end up in logs. Leave them out, and set AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY."
        )
    if parts.query or parts.fragment:
        raise ValueError(f"{EXPECTED_STORAGE}, got one with ? or #. An endpoint goes into AWS_ENDPOINT_URL.")
    if parts.scheme == "file":
        if parts.netloc not in ("", "localhost") or not parts.path.strip("/"):
            raise ValueError(
                f"{EXPECTED_STORAGE}, got {url!r}. A folder's URL has three slashes and its path from the root."
            )
        return StorageLocation(folder=Path(unquote(parts.path)).resolve())
    if parts.scheme == "s3":
        if not parts.netloc or ":" in parts.netloc:
            raise ValueError(f"{EXPECTED_STORAGE}, got {url!r}. An endpoint goes into AWS_ENDPOINT_URL.")
        if find_spec("s3fs") is None:
            raise ValueError("Files on S3 need the package s3fs, which is not installed: pip install s3fs")
        return StorageLocation(bucket="/".join([parts.netloc, *filter(None, parts.path.split("/"))]))
    raise ValueError(f"{EXPECTED_STORAGE}, got {url!r}.")


def add_driver(url: str) -> str:
    """Return a database URL with the PostgreSQL driver that SQLAlchemy should use. Other URLs stay as they are."""
    return url.replace(f"{POSTGRESQL}://", f"{POSTGRESQL}+psycopg://", 1)


def is_loopback(host: str) -> bool:
    """Return whether a host can only be reached from this machine."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def normalize_database_url(url: str) -> str:
    """Return a database URL as ``postgresql://`` or ``sqlite:///``.

    Raises ValueError for any other URL, without repeating it, because it may hold a password.
    """
    expected = "expected postgresql://user:password@host/name or sqlite:///path/of/a/file"
    unreadable = (
        f"{expected}, got a URL that cannot be read: write special characters of a password as %2F and the like"
    )
    url = url.strip()
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises ValueError if it is not a number
    except ValueError:
        raise ValueError(unreadable) from None
    after_scheme = url[len(parts.scheme) :]
    if parts.scheme == "sqlite":
        if parts.netloc or len(parts.path) < 2:
            raise ValueError(f"{expected}, got one of SQLite without three slashes and a file after them")
        return parts.scheme + after_scheme
    if parts.scheme not in POSTGRESQL_SCHEMES:
        raise ValueError(f"{expected}, got one that begins with {url.partition(':')[0][:20]!r}")
    if BARE_PERCENT.search(url) or "@" in parts.path:
        raise ValueError(unreadable)
    if not (parts.hostname or "host" in parse_qs(parts.query)) or len(parts.path) < 2:
        raise ValueError(f"{expected}, got one without a host or without the database's name")
    return POSTGRESQL + after_scheme


class Settings(BaseSettings):
    """Everything that can be configured. Each description is a row of /docs/settings."""

    model_config = SettingsConfigDict(env_prefix="ISOSCOPE_", frozen=True, hide_input_in_errors=True)

    data_dir: Path = Field(Path("data"), description="Folder for everything Isoscope writes.")
    database_url: str = Field(
        "",
        description="Metrics database, `postgresql://user:password@host/name`; "
        "empty: the SQLite file `isoscope.sqlite` in the data folder.",
    )
    queue_url: str = Field(
        "",
        description="Job engine's database; empty: the metrics database where that is PostgreSQL, "
        "else `queue.sqlite` in the data folder.",
    )
    models_dir: Path | None = Field(
        None, description="Folder whose subfolders are offered as models; empty: `models` in the data folder."
    )
    host: str = Field("127.0.0.1", description="Address to listen on; off loopback an access token is required.")
    port: int = Field(8000, ge=1, le=65535, description="Port to listen on.")
    access_token: SecretStr | None = Field(
        None, description="The owner's access token; at least 16 characters; required off loopback."
    )
    allowed_hosts: list[str] = Field(
        [], description='Further names this server answers to, as a JSON list, e.g. `["lab.example.org"]`.'
    )
    trusted_proxies: list[str] = Field(
        [],
        description="Addresses of reverse proxies off loopback whose `X-Forwarded-Proto` is trusted, as a JSON list.",
    )
    storage_url: str = Field(
        "", description="Where uploads are kept: `file:///folder` or `s3://bucket/prefix`; empty: in the data folder."
    )
    cache_bytes: int = Field(
        10 * GIB, gt=0, description="Cache of files on S3 per machine, in bytes; the most recently used stay."
    )
    reserve_bytes: int = Field(
        512 * MIB, ge=0, description="Free bytes that uploads and launches must leave on the disk; 0: no reserve."
    )
    max_upload_bytes: int = Field(2 * GIB, gt=0, description="Largest upload accepted, in bytes.")
    max_dataset_bytes: int = Field(200 * MIB, gt=0, description="Largest train or validation file, in bytes.")
    parse_memory_bytes: int = Field(
        4 * GIB, gt=0, description="Memory the process that parses an upload may use, in bytes."
    )
    parse_seconds: int = Field(
        300,
        gt=0,
        description="Seconds the process that parses an upload may take; "
        "of processor time at most 30 where its files have less than 10 MiB.",
    )
    parse_at_once: int | None = Field(
        None,
        ge=1,
        description="Uploads of rows and texts parsed at once; empty: one per core, in half of the memory together.",
    )
    device: str = Field(
        "auto",
        description="Device of the worker that `serve` starts: `cpu`, `cuda:0`, ...; `auto`: a worker for each GPU.",
    )
    runs_per_device: int | None = Field(
        None,
        ge=1,
        le=MAX_RUNS_PER_DEVICE,
        description="Fine-tunes that share a device; empty: at most 8 per GPU and one per four cores, "
        "as far as memory reaches.",
    )
    worker_name: str = Field(
        "",
        max_length=60,
        pattern=r"^[\w.-]*$",
        description="Name of this machine's workers, the same at every start and no other machine's; "
        "empty: the host name.",
    )
    checkpoint_seconds: float = Field(30, gt=0, description="Seconds of training between two checkpoints.")
    busy_timeout: float = Field(
        BUSY_SECONDS, gt=0, le=3600, description="Seconds that a writer of SQLite waits for another."
    )
    sample: bool = Field(True, description="Launch the sample embedding and sweep when the database is empty.")
    webhook_url: SecretStr | None = Field(
        None, description="Address that a worker posts JSON to when a sweep or search ends, `https://host/path`."
    )

    @field_validator("webhook_url")
    @classmethod
    def _require_web_address(cls, url: SecretStr | None) -> SecretStr | None:
        if url is None or not url.get_secret_value():
            return None
        parts = urlsplit(url.get_secret_value())
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("Expected an address such as https://host/path. Correct it, or leave it out.")
        return url

    @field_validator("storage_url")
    @classmethod
    def _check_storage_url(cls, url: str) -> str:
        parse_storage_url(url)
        return url

    @field_validator("database_url", "queue_url")
    @classmethod
    def _normalize_url(cls, url: str) -> str:
        return normalize_database_url(url) if url else url

    @model_validator(mode="after")
    def _require_token_off_loopback(self) -> "Settings":
        if self.access_token is not None and len(self.access_token.get_secret_value()) < MIN_TOKEN_CHARACTERS:
            raise ValueError(
                f"ISOSCOPE_ACCESS_TOKEN is shorter than {MIN_TOKEN_CHARACTERS} characters, so it could be guessed. "
                "Make one with: openssl rand -hex 16"
            )
        if self.access_token is None and not is_loopback(self.host):
            raise ValueError(
                f"ISOSCOPE_HOST is {self.host!r}, which other machines can reach, and "
                f"ISOSCOPE_ACCESS_TOKEN is not set. Set it to a secret of at least {MIN_TOKEN_CHARACTERS} characters, "
                "or listen on 127.0.0.1."
            )
        return self

    @cached_property
    def root(self) -> Path:
        """Return the data folder as an absolute path, so that a process may change its working directory."""
        return self.data_dir.expanduser().resolve()

    @cached_property
    def database(self) -> str:
        if self.database_url.startswith(POSTGRESQL):
            return add_driver(self.database_url)
        url = self.database_url or f"sqlite:///{self.root / 'isoscope.sqlite'}"
        return url if self.busy_timeout == BUSY_SECONDS or "?" in url else f"{url}?timeout={self.busy_timeout:g}"

    @cached_property
    def queue(self) -> str:
        # With a shared database, a local queue file would strand other machines' workers.
        if not self.queue_url and self.database_url.startswith(POSTGRESQL):
            return self.database_url
        return self.queue_url or f"sqlite:///{self.root / 'queue.sqlite'}"

    @cached_property
    def models(self) -> Path:
        return (self.models_dir or self.root / "models").expanduser().resolve()

    @property
    def files(self) -> Path:
        return parse_storage_url(self.storage_url).folder or self.root / "files"

    @property
    def bucket(self) -> str | None:
        return parse_storage_url(self.storage_url).bucket

    @property
    def cache(self) -> Path:
        return self.root / "cache"

    @property
    def runs(self) -> Path:
        return self.root / "runs"

    @property
    def database_copies(self) -> Path:
        return self.root / "before-migration"

    @property
    def sqlite_files(self) -> list[Path]:
        """Return the database files on this machine: the metrics database's, then the job engine's."""
        urls = [url for url in (self.database, self.queue) if url.startswith("sqlite")]
        return [Path(url.removeprefix("sqlite:///").partition("?")[0]).absolute() for url in urls]

    def create_folders(self) -> None:
        """Create the folders that all processes expect. Raise ConflictError if one cannot be written to."""
        files = self.files if self.bucket is None else self.cache
        folder = self.root
        try:
            for folder in (self.root, self.models, self.runs, files, self.root / "locks"):
                folder.mkdir(parents=True, exist_ok=True)
            owner = self.root.stat()
            # Leave folders such as /tmp alone: the sticky bit marks a shared folder.
            if owner.st_uid == os.geteuid() and not owner.st_mode & stat.S_ISVTX:
                self.root.chmod(stat.S_IRWXU)
            # Write a file, because permission bits do not reveal a read-only file system.
            folder = self.root
            with TemporaryFile(dir=folder):
                pass
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                return  # on a full disk writes fail later with their own error, and deleting must still work
            raise ConflictError(
                f"{folder} cannot be written to: {error.strerror}. Give this user the folder, or name another one in "
                "ISOSCOPE_DATA_DIR."
            ) from error


SETTINGS_PREFIX = str(Settings.model_config["env_prefix"])


def setting_errors(error: ValidationError | SettingsError) -> list[str]:
    """Return one message per invalid setting, without its value, which may be a secret."""
    if isinstance(error, SettingsError):
        return [f"Expected JSON where a setting is a list: {error}."]
    return [
        "".join(f"{SETTINGS_PREFIX}{str(part).upper()}: " for part in details["loc"][:1])  # "" if about several
        + str(details["msg"]).removeprefix("Value error, ")
        for details in error.errors()
    ]
