"""A container engine and compose services that it starts, all in the network of the first."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from tests import images

OPTIONS = {"user": "--user", "mem_limit": "--memory", "pids_limit": "--pids-limit", "restart": "--restart"}
LISTS = {"cap_drop": "--cap-drop", "security_opt": "--security-opt", "tmpfs": "--tmpfs"}
FLAGS = {"read_only": "--read-only", "init": "--init"}
HANDLED_APART = {"image", "command", "environment", "volumes", "logging", "healthcheck", "hostname"}
IGNORED = {"build", "ports", "depends_on", "deploy", "stop_grace_period"}


class Engine:
    def __init__(self, command: str) -> None:
        self.command = command

    @classmethod
    def find(cls) -> "Engine | None":
        names = [os.environ["ISOSCOPE_ENGINE"]] if "ISOSCOPE_ENGINE" in os.environ else ["docker", "podman"]
        engines = (cls(path) for name in names if (path := shutil.which(name)) is not None)
        return next((engine for engine in engines if engine.does("info")), None)

    def __call__(self, *words: str | Path, seconds: float = 300, stdin: str | None = None) -> str:
        process = subprocess.run(
            [self.command, *words], capture_output=True, text=True, timeout=seconds, input=stdin, check=False
        )
        assert process.returncode == 0, f"{' '.join(map(str, words))}: {process.stdout[-3000:]}{process.stderr[-3000:]}"
        return process.stdout

    def does(self, *words: str | Path, seconds: float = 300) -> bool:
        try:
            subprocess.run([self.command, *words], capture_output=True, timeout=seconds, check=True)
        except (subprocess.TimeoutExpired, subprocess.CalledProcessError):
            return False
        return True


class Services:
    def __init__(self, engine: Engine, folder: Path, variables: dict[str, str], images_for: dict[str, str]) -> None:
        self._engine = engine
        self._prefix = f"isoscope-test-{os.getpid()}"
        self._variables = variables
        self._images = images_for
        self._file = images.compose()
        self._started: list[str] = []
        self._hosts = folder / "hosts"
        self._hosts.write_text(f"127.0.0.1 localhost {' '.join(self._file['services'])}\n")

    def run(self, name: str, *command: str, called: str = "", **environment: str) -> str:
        """Start a service, named ``called`` if another of its kind runs; return the name of the container.

        With a ``command`` it runs once, as ``docker compose run`` does.
        """
        service = self._file["services"][name] | ({"restart": "no"} if command else {})
        unknown = set(service) - {*OPTIONS, *LISTS, *FLAGS} - HANDLED_APART - IGNORED
        assert not unknown, f"{name} has unknown settings: {unknown}"
        container = self.container(called or name)
        # The engine refuses a host name to a container that shares a network.
        extra = {"ISOSCOPE_WORKER_NAME": called or service["hostname"]} if "hostname" in service else {}
        network = f"container:{self._started[0]}" if self._started else "none"
        words = [*self._options(service), "--network", network, "--volume", f"{self._hosts}:/etc/hosts:ro"]
        words += ["--detach", "--name", container]
        for key, value in (service.get("environment", {}) | extra | environment).items():
            words += ["--env", f"{key}={images.interpolate(str(value), self._variables)}"]
        image = self._images.get(service["image"], service["image"])
        self._started.append(container)
        self._engine("run", *words, image, *(command or service.get("command", [])))
        return container

    def container(self, name: str) -> str:
        return f"{self._prefix}-{name}"

    def ends_well(self, container: str, seconds: float) -> bool:
        return self._engine("wait", container, seconds=seconds).strip() == "0"

    def stop(self, container: str, name: str) -> None:
        self._engine("stop", "--time", self._file["services"][name]["stop_grace_period"].removesuffix("s"), container)

    def is_healthy(self, name: str) -> bool:
        check = self._file["services"][name].get("healthcheck", {}).get("test")
        words = check[1:] if check else images.command(images.last_argument(images.dockerfile()[name], "HEALTHCHECK"))
        return self._engine.does("exec", self.container(name), *words, seconds=60)

    def python(self, name: str, code: str) -> str:
        return self._engine("exec", "--interactive", self.container(name), "python", "-", stdin=code)

    def logs(self) -> str:
        command = [self._engine.command, "logs"]
        printed = {
            name: subprocess.run([*command, name], capture_output=True, text=True, check=False)
            for name in self._started
        }
        return "\n".join(f"== {name}\n{(log.stdout + log.stderr)[-1500:]}" for name, log in printed.items())

    def take_down(self) -> None:
        for container in reversed(self._started):
            self._engine.does("rm", "--force", "--volumes", container)
        for volume in self._file["volumes"]:
            self._engine.does("volume", "rm", "--force", f"{self._prefix}-{volume}")

    def _options(self, service: dict[str, Any]) -> list[str]:
        words = []
        for key, option in OPTIONS.items():
            value = images.interpolate(str(service.get(key, "")), self._variables)
            words += [option, value] if value not in ("", "0") else []
        for key, option in LISTS.items():
            words += [word for value in service.get(key, []) for word in (option, value)]
        words += [option for key, option in FLAGS.items() if service.get(key)]
        words += ["--log-driver", service["logging"]["driver"]]
        for key, value in service["logging"]["options"].items():
            words += ["--log-opt", f"{key}={value}"]
        if service.get("healthcheck", {}).get("disable"):
            words.append("--no-healthcheck")
        for volume in service.get("volumes", []):
            if isinstance(volume, str):
                mount = f"{self._prefix}-{images.interpolate(volume, self._variables)}"
            else:
                source = images.interpolate(volume["source"], self._variables)
                mount = f"{source}:{volume['target']}{':ro' if volume.get('read_only') else ''}"
            words += ["--volume", mount]
        return words
