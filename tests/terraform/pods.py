"""Pods of the platform module as processes on this machine, each with an address of its own.

This module does the work of Kubernetes: it takes the environment, ports, commands, hooks and probes
from the manifest. Only names of hosts, `0.0.0.0` and mounted directories are replaced by those of
this machine.
"""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import requests

from harness.processes import Processes
from tests.terraform.manifests import Manifests, Object, container_of

PATH = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
COMMAND_S = 240.0
PROBE_S = 10.0


class Addresses:
    """The addresses of pods, by name, in one network of loopback addresses that nobody else
    uses.
    """

    def __init__(self) -> None:
        self._network = f"127.{random.randint(16, 250)}.{random.randint(1, 250)}"
        self._of: dict[str, str] = {}

    def of(self, pod: str) -> str:
        return self._of.setdefault(pod, f"{self._network}.{len(self._of) + 1}")


class Pod:
    """One pod, which its caller starts again after it ends.

    `replace` changes values of its environment, the longest first; `secrets` has the files of
    mounted Secrets.
    """

    def __init__(
        self,
        name: str,
        template: Object,
        manifests: Manifests,
        address: str,
        directory: Path,
        replace: Mapping[str, str],
        secrets: Mapping[str, Mapping[str, bytes]],
    ) -> None:
        self.name = name
        self.address = address
        self.grace_s = float(template["spec"].get("terminationGracePeriodSeconds", 30))
        self._container = container_of(template)
        self._log = directory / f"{name}.log"
        fields = {"status.podIP": address, "metadata.name": name}
        self._before: list[Object] = template["spec"].get("initContainers", [])
        volumes = {each["name"]: each for each in template["spec"]["volumes"]}
        mounts = {}
        for mount in (each for one in self._containers for each in one["volumeMounts"]):
            volume = volumes.get(mount["name"], {})
            claim = volume.get("persistentVolumeClaim", {}).get("claimName")
            place = directory / "claims" / claim if claim else directory / name / mount["name"]
            place.mkdir(parents=True, exist_ok=True)
            mounts[mount["mountPath"]] = str(place)
            secret = volume.get("secret", {}).get("secretName")
            for file, content in secrets[secret].items() if secret else ():
                (place / file).write_bytes(content)
        self._exchanged = {"0.0.0.0": address, **mounts, **replace}
        self.starts = 0
        self._command = [
            _replaced(part, self._exchanged)
            # Without a command it is the image's: `packetboat`.
            for part in (
                *self._container.get("command", ["packetboat"]),
                *self._container.get("args", []),
            )
        ]
        self.environment = {
            variable: _replaced(value, self._exchanged)
            for variable, value in manifests.environment(self._container, fields).items()
        }
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, processes: Processes) -> None:
        """Returns at once."""
        self.starts += 1
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PACKETBOAT_")}
        self._process = processes.start(
            self._command,
            log=self._log,
            env=environment | self.environment | {"PATH": PATH},
        )

    def initialise(self) -> None:
        """Runs what has to end before it starts."""
        for container in self._before:
            command = [_replaced(part, self._exchanged) for part in container["command"]]
            self._run(command)

    @property
    def is_ready(self) -> bool:
        """Return whether its readiness probe succeeds."""
        return self._answers("readinessProbe")

    @property
    def is_alive(self) -> bool:
        """Return whether its liveness probe succeeds."""
        return self._answers("livenessProbe")

    def wait(self, timeout_s: float) -> int:
        """Return the exit code once the pod has ended by itself."""
        assert self._process is not None
        return self._process.wait(timeout_s)

    @property
    def has_ended(self) -> bool:
        return self._process is not None and self._process.poll() is not None

    def stop(self) -> int:
        """Stop as Kubernetes does, by the hook and then SIGTERM; return the exit code."""
        assert self._process is not None
        hook = self._container.get("lifecycle", {}).get("preStop")
        if hook is not None:
            self._run(hook["exec"]["command"])
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(self.grace_s)

    def url(self, port: str) -> str:
        """Return the URL of one of the pod's ports, by the port's name."""
        number = next(p["containerPort"] for p in self._container["ports"] if p["name"] == port)
        return f"http://{self.address}:{number}"

    def tail(self) -> str:
        return f"--- {self.name}\n{self._log.read_text(errors='replace')[-2000:]}"

    @property
    def _containers(self) -> list[Object]:
        return [*self._before, self._container]

    def _run(self, command: list[str]) -> None:
        """Run a command to its end; it must succeed."""
        done = subprocess.run(
            command,
            env=os.environ | self.environment | {"PATH": PATH},
            capture_output=True,
            text=True,
            timeout=COMMAND_S,
            check=False,
        )
        assert done.returncode == 0, f"{self.name}: {done.stdout}{done.stderr}"

    def _answers(self, probe: str) -> bool:
        get = self._container[probe]["httpGet"]
        try:
            answer = requests.get(self.url(get["port"]) + get["path"], timeout=PROBE_S)
        except requests.RequestException:
            return False
        return answer.status_code == 200


def _replaced(value: str, exchanged: Mapping[str, str]) -> str:
    olds = sorted(exchanged, key=len, reverse=True)
    return re.sub("|".join(map(re.escape, olds)), lambda found: exchanged[found[0]], value)
