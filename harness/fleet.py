"""Many forwarders behind a real HAProxy: every process is started, hung and killed by itself.

    async with Fleet(root, subscribers=3, publishers=2, balance="hash") as fleet:
        status, body = await fleet.call("POST", "/topics", b'{"name": "t"}')  # by the balancer
        fleet.subscribers[0].kill()
        fleet.subscribers[0].start()
        await fleet.until_ready()

A Fleet does the same to store nodes and Postgres as a ChaosCluster; `server` there means all of
the roles' processes here. Only this harness restarts killed processes.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

from harness.balancers import HAProxy
from harness.cluster import HOST, ChaosCluster, ClusterFailed
from harness.http_client import Answer, connect, request
from harness.processes import Processes, free_ports
from harness.releases import Release

Balance = Literal["hash", "roundrobin", "none"]
"""`none`: no balancer, `port` and `base_url` are the gateway's."""


class Member:
    """One process of one role; `settings` go over what all have and count at its next start."""

    def __init__(
        self,
        role: str,
        number: int,
        root: Path,
        processes: Processes,
        environment: Callable[[], Mapping[str, str]],
        release: Release,
    ) -> None:
        self.release = release
        """The release from its next start on."""
        self.name = f"{role}-{number}"
        self.role = role
        self.root = root
        self.port, self.metrics_port = free_ports(2)
        self.settings: dict[str, str] = {}
        self.trace = root / f"{self.name}.trace"
        """The trace of a subscribe forwarder: each response that carried messages, over all
        its starts.
        """
        self.is_stopped = False
        """Whether SIGSTOP has stopped it."""
        self._processes = processes
        self._environment = environment
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Returns at once; it must not run."""
        assert not self.is_running
        environment = dict(self._environment()) | {
            "PACKETBOAT_PORT": str(self.port),
            "PACKETBOAT_METRICS_PORT": str(self.metrics_port),
            "PACKETBOAT_ROLE": self.role,
        }
        if self.role == "subscribe":
            environment["PACKETBOAT_SUBSCRIBE_TRACE_FILE"] = str(self.trace)
        self.is_stopped = False
        self._process = self._processes.start(
            [sys.executable, "-m", "gateway", "serve"],
            log=self.log,
            env=environment | self.settings | self.release.environment(),
            cwd=self.release.tree,
        )

    @property
    def log(self) -> Path:
        return self.root / f"{self.name}.log"

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def is_running(self) -> bool:
        """Return whether it runs, also while it is stopped."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        """Send SIGKILL; the process is gone when this returns; also one that is stopped, or
        gone.
        """
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self.is_stopped = False

    def stop(self) -> None:
        """SIGSTOP: it holds its connections and says nothing."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        self.is_stopped = True

    def cont(self) -> None:
        """Send SIGCONT."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)
        self.is_stopped = False

    async def terminate(self, timeout_s: float = 30.0) -> int:
        """Send SIGTERM; returns the exit status once the process has drained."""
        assert self._process is not None
        self._process.terminate()
        return await asyncio.to_thread(self._process.wait, timeout_s)

    async def ended(self, timeout_s: float = 120.0) -> int:
        """Return its exit status, once it has ended by itself."""
        assert self._process is not None
        return await asyncio.to_thread(self._process.wait, timeout_s)

    async def call(
        self, method: str, path: str, token: str, body: bytes = b"", timeout_s: float = 30.0
    ) -> Answer:
        """Send one request to this process itself; raises OSError."""
        connection = await connect(HOST, self.port)
        try:
            whole = request(method, path, token, body)
            return await asyncio.wait_for(connection.send(whole), timeout_s)
        finally:
            connection.close()

    def tail(self, max_bytes: int = 1500) -> str:
        """Return the end of its log."""
        try:
            return self.log.read_bytes()[-max_bytes:].decode(errors="replace")
        except FileNotFoundError:
            return ""


class Fleet(ChaosCluster):
    """One installation: Postgres, three store nodes, the roles' processes, a balancer. Use as a
    context manager: leaving it kills everything. `port` and `base_url` are the balancer's."""

    def __init__(
        self,
        root: Path,
        *,
        subscribers: int = 3,
        publishers: int = 2,
        balance: Balance = "hash",
        settings: Mapping[str, str] | None = None,
        **more: Any,
    ) -> None:
        """Make a fleet; `settings`: more of every role's environment. `more`: see ChaosCluster."""
        super().__init__(root, **more)
        self._settings = dict(settings or {})
        self.subscribers = [self._member("subscribe", n) for n in range(1, subscribers + 1)]
        self.publishers = [self._member("publish", n) for n in range(1, publishers + 1)]
        self.gateway = self._member("gateway", 1)
        self.scheduler = self._member("scheduler", 1)
        self.members = [*self.subscribers, *self.publishers, self.gateway, self.scheduler]
        self.servers = {
            "subscribe": [member.address for member in self.subscribers],
            "publish": [member.address for member in self.publishers],
            "gateway": [self.gateway.address],
        }
        self.balancer = HAProxy(root, self.servers, round_robin=balance == "roundrobin")
        self._is_balanced = balance != "none"
        self.http_port = self.port = self.balancer.port if self._is_balanced else self.gateway.port
        self.base_url = f"http://{HOST}:{self.port}"

    def _member(self, role: str, number: int) -> Member:
        return Member(
            role,
            number,
            self.root,
            self._processes,
            lambda: self._environment() | self._settings,
            self.release,
        )

    def spare(self, role: str) -> Member:
        """Return one more member that no balancer and no `members` knows; it does not run."""
        return self._member(role, len(self.members) + 1)

    def start_server(self) -> None:
        """Start the balancer, and every process of a role that does not run; returns at once."""
        has_ended = self.balancer.process is None or self.balancer.process.poll() is not None
        if self._is_balanced and has_ended:
            self.balancer.start()
        for member in self.members:
            if not member.is_running:
                member.start()

    async def until_ready(self, timeout_s: float = 60.0) -> None:
        """Until every process that runs and is not stopped says that it is ready, and the balancer
        sends it requests. Raises ClusterFailed when one has ended by itself, too."""
        deadline = time.monotonic() + timeout_s
        for member in [m for m in self.members if m.is_running and not m.is_stopped]:
            said = ""
            while time.monotonic() < deadline:
                with contextlib.suppress(OSError, TimeoutError):
                    status, body = await member.call("GET", "/readyz", self.token, timeout_s=2.0)
                    if status == 200:
                        break
                    said = body.decode(errors="replace")
                if not member.is_running:
                    raise ClusterFailed(f"{member.name} has ended: {member.tail()}")
                await asyncio.sleep(0.05)
            else:
                raise ClusterFailed(
                    f"{member.name} is not ready: {said}\n{member.tail()}\n{self.tail('node-1')}"
                )
        await self._until_balanced(deadline)

    async def _until_balanced(self, deadline: float) -> None:
        wanted = {m.name for m in self.members if m.is_running and not m.is_stopped}
        wanted -= {self.scheduler.name}
        if not self._is_balanced:
            return
        up: set[str] = set()
        while time.monotonic() < deadline:
            up = await asyncio.to_thread(self.balancer.servers_up)
            if wanted <= up:
                return
            await asyncio.sleep(0.05)
        raise ClusterFailed(f"the balancer has {sorted(up)}, not {sorted(wanted - up)}")

    def member(self, name: str) -> Member:
        """Return a member by its name, such as `subscribe-1`."""
        return next(member for member in self.members if member.name == name)

    # -- faults of a ChaosCluster's server -------------------------------------------------------

    def kill_server(self) -> None:
        """Send SIGKILL to every process of a role."""
        for member in self.members:
            member.kill()

    def stop_server(self) -> int:
        """Refuse: a fleet has `Member.terminate`."""
        raise NotImplementedError

    def kill_everything(self) -> None:
        """Send SIGKILL to every process, Postgres and the balancer too, before any of them
        can say a word.
        """
        super().kill_everything()
        self.kill_server()
        self.balancer.stop()

    async def postgres_restart(self, *, kill: bool = True) -> None:
        """Restart Postgres by SIGKILL, or as an operator does; returns when it takes
        connections again.
        """
        if kill:
            self.kill_postgres()
        else:
            await asyncio.to_thread(self._postgres.stop)
        await self.start_postgres()

    def pids(self) -> dict[str, int]:
        """Return the process ids of all servers, by name; Postgres and the balancer too."""
        found = {member.name: member.pid for member in self.members if member.is_running}
        found |= {f"node-{node}": self.pid(node) for node in self.addresses}
        if self._postgres.pid is not None:
            found["postgres"] = self._postgres.pid
        if self.balancer.process is not None:
            found["haproxy"] = self.balancer.process.pid
        return found

    @property
    def database_url(self) -> str:
        """Return the URL of the Postgres, for looking in."""
        return self._database_url()

    @property
    def postgres_log(self) -> Path:
        return self._postgres.log_file

    def stop(self) -> None:
        for member in self.members:
            if member.is_stopped:
                member.kill()
        self.balancer.stop()
        super().stop()
