import hashlib
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from jsonschema import Draft7Validator, ValidationError

from app.core.settings import Settings
from app.main import create_app
from tests import images

SCHEMA = Path(__file__).parent / "compose" / "compose-spec.json"
SPECIFICATION = Draft7Validator(json.loads(SCHEMA.read_text()))
TOKEN = "a-secret-of-some-length"
OURS = ("migrate", "web", "worker")
SERVICES = images.compose()["services"]
STAGES = images.dockerfile()
FILES = ("docker-compose.yml", "compose.cpu.yml")


@pytest.mark.slow
def test_hadolint_accepts_dockerfile():
    hadolint = Path(sys.executable).with_name("hadolint")
    process = subprocess.run([hadolint, images.ROOT / "Dockerfile"], capture_output=True, text=True, check=False)
    assert (process.returncode, process.stdout) == (0, "")


def test_compose_files_match_published_specification():
    assert hashlib.sha256(SCHEMA.read_bytes()).hexdigest() in (SCHEMA.parent / "README.md").read_text()
    for name in FILES:
        SPECIFICATION.validate(images.compose(name))
    content = images.compose()
    content["services"]["web"]["restarts"] = "always"
    with pytest.raises(ValidationError, match="'restarts' does not match"):
        SPECIFICATION.validate(content)


def test_only_web_is_published_and_all_share_databases_and_files():
    published = {name: service["ports"] for name, service in SERVICES.items() if "ports" in service}
    assert published == {"web": ["127.0.0.1:${ISOSCOPE_PORT:-8000}:8000"]}
    shared = ("ISOSCOPE_DATABASE_URL", "ISOSCOPE_QUEUE_URL", "PGPASSWORD")
    assert len({tuple(SERVICES[name]["environment"][key] for key in shared) for name in OURS}) == 1
    assert all("data:/data" in SERVICES[name]["volumes"] for name in OURS)


def test_secrets_have_no_default_and_name_the_remedy():
    text = (images.ROOT / "docker-compose.yml").read_text()
    for secret in ("POSTGRES_PASSWORD", "ISOSCOPE_ACCESS_TOKEN"):
        uses = re.findall(rf"\$\{{{secret}([^}}]*)\}}", text)
        assert uses
        assert all(use == ":?Set it in .env to a secret of its own. .env.example says how." for use in uses)
        assert f"\n{secret}=\n" in (images.ROOT / ".env.example").read_text()


def test_base_images_are_pinned_and_settings_exist():
    setting_names = {f"ISOSCOPE_{name.upper()}" for name in Settings.model_fields}
    for name in ("Dockerfile", ".env.example", *FILES):
        assert set(re.findall(r"ISOSCOPE_\w+", (images.ROOT / name).read_text())) <= setting_names
    assert images.base_images() == {"python:3.11-slim-trixie"}
    assert (SERVICES["postgres"]["image"], SERVICES["postgres"]["user"]) == ("postgres:17", "postgres")
    assert SERVICES["postgres"]["healthcheck"]["test"][0] == "CMD"


@pytest.mark.parametrize("name", SERVICES)
def test_service_runs_with_least_privilege(name):
    expected = {
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges:true"],
        "read_only": True,
        "init": True,
        "restart": "no" if name == "migrate" else "unless-stopped",
        "logging": {"driver": "json-file", "options": {"max-size": "10m", "max-file": "5"}},
        "pids_limit": 4096 if name == "worker" else 1024,
    }
    assert {key: SERVICES[name].get(key) for key in expected} == expected
    assert "privileged" not in SERVICES[name]
    assert "/tmp" in SERVICES[name]["tmpfs"]
    assert "mem_limit" in SERVICES[name]


@pytest.mark.parametrize("stage", ["web", "worker"])
def test_image_runs_as_fixed_user_without_shell(stage):
    copied = images.copied_from(STAGES[stage])
    assert copied[-1] == "code", "the environment is a layer below the code"
    assert [step.argument for step in STAGES[stage] if step.name == "COPY"][-1].endswith("/srv/isoscope /srv/isoscope")
    sources = {word for step in STAGES[copied[0]] if step.name == "COPY" for word in step.argument.split()[:-1]}
    described = {"pyproject.toml", "requirements.lock", "README.md", "LICENSE"}
    assert sources == described | {"isoscope/pyproject.toml", "isoscope/build.py"}
    assert images.last_argument(STAGES[stage], "USER") == "10001:10001"
    assert images.command(images.last_argument(STAGES[stage], "CMD"))[:2] == ["python", "-m"]
    assert images.command(images.last_argument(STAGES[stage], "HEALTHCHECK"))[0] == "python"
    version = re.search(r'^version = "(.+)"$', (images.ROOT / "pyproject.toml").read_text(), re.MULTILINE)[1]
    assert SERVICES[stage]["image"] == f"isoscope-{stage}:{version}"
    assert f'image.version="{version}"' in images.last_argument(STAGES[stage], "LABEL")


def test_services_start_in_order_with_time_to_stop():
    waits = {name: SERVICES[name]["depends_on"] for name in OURS}
    migrated = {"migrate": {"condition": "service_completed_successfully"}}
    ready = {"postgres": {"condition": "service_healthy"}}
    assert waits == {"migrate": ready, "web": migrated, "worker": migrated}
    stops = {name: service.get("stop_grace_period") for name, service in SERVICES.items()}
    assert stops == {"postgres": "60s", "migrate": None, "web": "15s", "worker": "30s"}
    assert SERVICES["worker"]["hostname"] == "worker", "a recreated container keeps its name"


def test_worker_reserves_gpu_and_web_has_backup_tools():
    text = {stage: " ".join(run.argument for run in STAGES[stage] if run.name == "RUN") for stage in ("web", "worker")}
    assert [stage for stage in text if "postgresql-client" in text[stage]] == ["web"]
    assert "--owner=10001 --group=10001 /backups" in text["web"]
    mounted = {name: [path for path in SERVICES[name]["volumes"] if "/backups" in path] for name in OURS}
    assert mounted == {"migrate": [], "web": ["${BACKUPS:-backups}:/backups"], "worker": []}
    assert SERVICES["web"]["volumes"][:2] == SERVICES["worker"]["volumes"]
    [device] = SERVICES["worker"]["deploy"]["resources"]["reservations"]["devices"]
    assert device == {"driver": "nvidia", "count": 1, "capabilities": ["gpu"]}
    assert images.environment(STAGES["worker"])["NVIDIA_DRIVER_CAPABILITIES"] == "compute,utility"
    assert images.compose("compose.cpu.yml")["services"]["worker"]["deploy"] is None


@pytest.mark.slow
def test_build_context_holds_all_packages_and_no_data(tmp_path):
    images.copy_context(tmp_path / "context")
    wheel = tomllib.loads((images.ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    packages = {*wheel["only-include"], "isoscope", "isotropy"}
    files = {"LICENSE", "README.md", "alembic.ini", "pyproject.toml", "requirements.lock"}
    assert {path.name for path in (tmp_path / "context").iterdir()} == packages | files
    assert not list((tmp_path / "context").rglob("__pycache__"))


def test_published_address_is_answered(context):
    settings = Settings(data_dir=context.settings.data_dir, host="0.0.0.0", access_token=TOKEN, sample=False)
    for url in ("http://localhost:8000", "http://127.0.0.1:8000"):
        with TestClient(create_app(settings), base_url=url, follow_redirects=False) as client:
            assert client.get("/api/health").json()["status"] == "ok"
            assert client.get("/").headers["location"] == "/login?next=/"
            assert client.get("/", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200
            assert client.post("/login", data={"token": TOKEN}, headers={"Origin": url}).status_code == 303
            assert client.get("/").status_code == 200
