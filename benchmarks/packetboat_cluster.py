"""Packetboat as `packetboat up` runs it: Postgres, three store nodes, one server."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from harness.measure import cpu_by_pid, tree
from harness.processes import NotReady, Processes, wait_until
from harness.settings import WITHOUT_QUOTAS
from peering.shared_secret import SharedSecret
from store_nodes.client import StoreClient

PARTS = (("store-node", "store nodes"), ("serve", "server"), ("postgres", "Postgres"))


class PacketboatCluster:
    """One installation in a fresh data directory on free ports."""

    name = "Packetboat"

    def __init__(
        self, directory: Path, env: Mapping[str, str] | None = None, cwd: Path | None = None
    ) -> None:
        """Prepare a cluster; `env` has settings besides those of our own environment, `cwd`
        is its working directory.
        """
        self.directory = directory
        self._env = WITHOUT_QUOTAS | dict(env or {})
        self._cwd = cwd
        self._processes = Processes()
        self.url = ""
        self.token = ""
        self.metrics_url = ""
        self._state: dict[str, Any] = {}

    def start(self) -> None:
        """Raises NotReady with the end of the supervisor's log."""
        self.directory.mkdir(parents=True)
        log = self.directory / "up.log"
        data = self.directory / "data"
        supervisor = self._processes.start(
            [sys.executable, "-m", "gateway", "up", "--data-dir", data, "--port", "0"],
            log=log,
            env=self._env,
            cwd=self._cwd,
        )
        ready = data / "client.env"
        try:
            wait_until(
                lambda: ready.exists() or supervisor.poll() is not None,
                timeout_s=90,
                what="packetboat up",
            )
        except NotReady as error:
            raise NotReady(f"{error}\n{log.read_text()[-2000:]}") from error
        if supervisor.poll() is not None:
            raise NotReady(f"packetboat up ended:\n{log.read_text()[-2000:]}")
        lines = dict(
            line.removeprefix("export ").split("=", 1) for line in ready.read_text().splitlines()
        )
        self.url, self.token = lines["PACKETBOAT_URL"], lines["PACKETBOAT_TOKEN"]
        self._state = json.loads((data / "state.json").read_text())
        # A release before 0.3 tells its metrics where it serves.
        port = self._state["ports"].get("metrics")
        self.metrics_url = (f"http://127.0.0.1:{port}" if port else self.url) + "/metrics"

    def create(self, path: str, body: dict[str, Any]) -> None:
        """POST a topic or subscription."""
        address = self.url.removeprefix("http://")
        connection = http.client.HTTPConnection(address, timeout=20)
        connection.request(
            "POST",
            path,
            json.dumps(body),
            {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"},
        )
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        if answer.status != 201:
            raise NotReady(f"POST {path}: {answer.status} {text[:300]!r}")

    def metric(self, begin: str) -> float:
        """Return the sum of the server's samples whose name and labels begin so; raises NotReady
        if there are none.
        """
        with urllib.request.urlopen(self.metrics_url, timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        found = [float(line.rpartition(" ")[2]) for line in lines if line.startswith(begin)]
        if not found:
            raise NotReady(f"the server has no metric {begin}")
        return sum(found)

    def flushes(self) -> list[int]:
        """Return the number of fdatasyncs so far per store node; raises NotReady if a node
        does not answer.
        """
        statuses = asyncio.run(self._statuses())
        found = []
        for node, status in sorted(statuses.items()):
            log = status.get("log")
            if not isinstance(log, dict) or "flushes" not in log:
                raise NotReady(f"node {node} tells no flush counter: {status}")
            found.append(int(log["flushes"]))
        if len(found) != 3:
            raise NotReady(f"{len(found)} of 3 store nodes answered")
        return found

    async def _statuses(self) -> dict[int, dict[str, Any]]:
        ports = self._state["ports"]["store"]
        client = StoreClient(
            {node: ("127.0.0.1", port) for node, port in enumerate(ports, 1)},
            groups=range(8),
            secret=SharedSecret.from_text(self._state["store_secret"]),
        )
        await client.start()
        try:
            await client.wait_ready(10)
            return await client.status()
        finally:
            await client.close()

    def most_leading(self) -> int:
        """Return the store node that leads most groups."""
        statuses = asyncio.run(self._statuses())
        led = [group["leader"] for status in statuses.values() for group in status["groups"]]
        return max({node for node in led if node}, key=led.count)

    def kill_node(self, node: int) -> None:
        """Kill a store node with SIGKILL; its supervisor starts it again."""
        data = self.directory / "data" / f"node-{node}"
        for pid in tree(self.pids()):
            with contextlib.suppress(OSError):
                files = [os.readlink(file) for file in Path(f"/proc/{pid}/fd").iterdir()]
                if any(Path(file).is_relative_to(data) for file in files):
                    os.kill(pid, signal.SIGKILL)
                    return
        raise NotReady(f"node {node} does not run")

    def await_nodes(self) -> None:
        """Wait until every store node tells its status. Raises NotReady."""
        wait_until(self._all_nodes_tell, timeout_s=30, what="all store nodes")

    def _all_nodes_tell(self) -> bool:
        return all("groups" in status for status in asyncio.run(self._statuses()).values())

    def pids(self) -> list[int]:
        """Return the process id of the supervisor, whose tree is the whole cluster."""
        return self._processes.pids()

    def cpu_by_part(self) -> dict[str, float]:
        """Return the CPU seconds so far of server, store nodes, Postgres and the rest."""
        spent: defaultdict[str, float] = defaultdict(float)
        for pid, seconds in cpu_by_pid(self.pids()).items():
            try:
                command = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue
            part = next((name for word, name in PARTS if word in command), "supervisor")
            spent[part] += seconds
        return dict(spent)

    def stop(self) -> None:
        """Stop cleanly, as Ctrl-C does."""
        self._processes.stop(grace_s=25)


class Loaded(Protocol):
    """The system under load."""

    @property
    def url(self) -> str: ...

    @property
    def token(self) -> str: ...

    def pids(self) -> list[int]:
        """Return the roots of the process trees whose CPU counts."""


def run_load(cluster: Loaded, case: str, *, seconds: float, **options: object) -> dict[str, Any]:
    """Run one case of benchmarks.http_load in its own process; raises NotReady."""
    command = [sys.executable, "-m", "benchmarks.http_load", case, "--seconds", str(seconds)]
    command += ["--url", cluster.url, "--token", cluster.token]
    command += ["--pids", ",".join(map(str, cluster.pids()))]
    for name, value in options.items():
        command += [f"--{name}", str(value)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 40)
    if run.returncode != 0:
        raise NotReady(f"{case}: {run.stderr.strip()[-500:]}")
    result: dict[str, Any] = json.loads(run.stdout)
    return result


def run_sdk_load(cluster: Loaded, case: str, name: str, seconds: float) -> dict[str, Any]:
    """Run one case of benchmarks.sdk_load in two processes, on a topic and a subscription of this
    name. Raises NotReady.
    """
    command = [sys.executable, "-m", "benchmarks.sdk_load", case, "--processes", "2"]
    command += ["--url", cluster.url, "--token", cluster.token, "--seconds", str(seconds)]
    command += ["--topic", name, "--subscription", name]
    command += ["--pids", ",".join(map(str, cluster.pids()))]
    run = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 60)
    if run.returncode != 0:
        raise NotReady(f"SDK, {case}: {run.stderr.strip()[-500:]}")
    result: dict[str, Any] = json.loads(run.stdout)
    return result


def pause(seconds: float = 0.2) -> None:
    """Let what the last case left behind end: acks on their way, a flush."""
    time.sleep(seconds)
