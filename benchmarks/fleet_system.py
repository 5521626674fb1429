"""Packetboat as many processes behind HAProxy, for the benchmarks that ask what that costs."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import tempfile
import urllib.request
from collections import defaultdict
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any

from benchmarks.statements import Statements
from harness.cluster import HOST
from harness.fleet import Balance, Fleet
from harness.http_client import Connection, connect, request
from harness.measure import cpu_by_pid
from harness.processes import NotReady

Call = tuple[str, str, dict[str, Any] | None, int]
"""Method, path, body, and the status that it must be answered with."""
CREATING = 4
"""Requests under way at once while topics and subscriptions are made."""
TRIES = 20
RETRY_S = 0.5


class FleetSystem:
    """One installation in a directory of its own; use as a context manager."""

    def __init__(self, subscribers: int, balance: Balance = "hash", publishers: int = 1) -> None:
        self.name = f"{subscribers} of role subscribe, {balance}"
        self._root = Path(tempfile.mkdtemp(prefix="packetboat-fleet-"))
        self._root.chmod(0o711)  # Postgres runs as a lesser account when we are root.
        self.fleet = Fleet(
            self._root, subscribers=subscribers, publishers=publishers, balance=balance
        )

    def __enter__(self) -> FleetSystem:
        try:
            asyncio.run(self.fleet.start())
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.fleet.stop()
        shutil.rmtree(self._root, ignore_errors=True)

    @property
    def url(self) -> str:
        return self.fleet.base_url

    @property
    def token(self) -> str:
        return self.fleet.token

    def pids(self) -> list[int]:
        """Return the process ids of all servers, without the balancer."""
        return [pid for name, pid in self.fleet.pids().items() if name != "haproxy"]

    def cpu(self) -> dict[str, float]:
        """Return the CPU seconds so far of each part: subscribe, publish, store, postgres, haproxy,
        …
        """
        spent: defaultdict[str, float] = defaultdict(float)
        for name, pid in self.fleet.pids().items():
            part = "store" if name.startswith("node-") else name.rpartition("-")[0] or name
            spent[part] += sum(cpu_by_pid([pid]).values())
        return dict(spent)

    def memory_bytes(self) -> int:
        """Return the resident memory of all subscribe forwarders."""
        return sum(resident_bytes(member.pid) for member in self.fleet.subscribers)

    def metric(self, name: str) -> float:
        """Return the sum of a metric over all subscribe forwarders and labels."""
        total = 0.0
        for member in self.fleet.subscribers:
            with urllib.request.urlopen(
                f"http://127.0.0.1:{member.metrics_port}/metrics"
            ) as answer:
                text = answer.read().decode()
            found = re.findall(rf"^{name}(?:\{{[^}}]*\}})? ([0-9.e+-]+)$", text, re.MULTILINE)
            if not found:
                raise NotReady(f"{member.name} has no metric {name}")
            total += sum(map(float, found))
        return total

    def statements(self) -> Statements:
        return Statements(self.fleet.database_url, self.fleet.postgres_log, self.fleet.pids())

    def create(self, *things: tuple[str, dict[str, Any]]) -> None:
        """Create topics or subscriptions by POST, some at once."""
        asyncio.run(self.send([("POST", path, body, 201) for path, body in things]))

    async def send(self, calls: Sequence[Call]) -> None:
        """Send requests, some at once, again after a 503. Raises NotReady for any other answer."""
        await send_all(self.fleet.port, self.token, calls)


async def send_all(port: int, token: str, calls: Iterable[Call], at_once: int = CREATING) -> None:
    """Send requests to a port of this machine, `at_once` at a time, again after a 503. Raises
    NotReady for any other answer.
    """
    left = iter(calls)

    async def work(connection: Connection) -> None:
        for method, path, body, wanted in left:
            data = json.dumps(body).encode() if body is not None else b""
            whole = request(method, path, token, data)
            answer = await connection.send(whole)
            for _ in range(TRIES):
                if answer.status != 503:
                    break
                await asyncio.sleep(RETRY_S)
                answer = await connection.send(whole)
            if answer.status != wanted:
                raise NotReady(f"{method} {path}: {answer.status} {answer.body[:300]!r}")

    connections = [await connect(HOST, port) for _ in range(at_once)]
    try:
        await asyncio.gather(*(work(connection) for connection in connections))
    finally:
        for connection in connections:
            connection.close()


def together(loads: list[Any]) -> list[Any]:
    """Return the results of functions that run at the same time, each in a process that it
    starts.
    """
    with ThreadPoolExecutor(max(1, len(loads))) as pool:
        return [future.result() for future in [pool.submit(load) for load in loads]]


def resident_bytes(pid: int) -> int:
    """Return the resident memory of a process."""
    status = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"^VmRSS:\s+(\d+) kB$", status, re.MULTILINE)
    assert found is not None
    return int(found[1]) * 1024
