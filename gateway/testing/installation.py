"""One Packetboat for a session of tests: Postgres, store nodes and a server, on this machine.

All of it is the product: what is different is that its clocks can be moved, and that everything
goes when the session ends. It starts once, in a few seconds, when the first test asks for it.
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

import httpx

from gateway.configuration.settings import format_addresses, inherited_environment
from gateway.operators import Credential
from gateway.testing import postgres_clock
from gateway.testing.shared_clock import SharedClock
from gateway.up.child import die_with
from gateway.up.supervisor import LOOPBACK
from metadata.postgres.embedded import EmbeddedPostgres
from metadata.private_log import open_private_log

PROGRAM = Path(__file__).with_name("__main__.py")
GROUPS = 4
START_S = 180.0
LOOK_EVERY_S = 0.01
_LOOKS_TO_HEAR = 20
"""Ticks of a node, half a second: several heartbeats."""
_DISK_RESERVE_BYTES = 64 * 1024 * 1024


class NotStarted(Exception):
    """The installation did not come up, or something of it ended; with the end of its log."""


class Installation:
    """Use `start`, on a thread that lives as long as it does."""

    def __init__(self, nodes: int = 1) -> None:
        self._nodes = nodes
        # Not pytest's own directories: nobody but their owner may enter those.
        self.directory = Path(tempfile.mkdtemp(prefix="packetboat-test-"))
        self.directory.chmod(0o711)
        self.shared = SharedClock(self.directory / "clock")
        self._postgres = EmbeddedPostgres(self.directory / "postgres", port=free_port())
        self._children: list[tuple[str, subprocess.Popen[bytes]]] = []
        self._credential_file = self.directory / "operator.env"
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._http = httpx.Client(base_url=self.url, timeout=5.0, trust_env=False)

    def start(self) -> Installation:
        """Returns when it is ready. Raises NotStarted."""
        ports = [free_port() for _ in range(self._nodes)]
        environment = self._environment(ports)
        for node in range(1, self._nodes + 1):
            self._spawn(
                f"node-{node}",
                ["store-node", str(node)],
                environment
                | {
                    "PACKETBOAT_STORE_NODE_ID": str(node),
                    "PACKETBOAT_STORE_DIR": str(self.directory / f"node-{node}"),
                    "PACKETBOAT_STORE_DISK_RESERVE_BYTES": str(_DISK_RESERVE_BYTES),
                },
            )
        self._postgres.start()
        postgres_clock.install(self._postgres.url)
        database = {"PACKETBOAT_DATABASE_URL": self._postgres.url}
        self._spawn("server", ["server", str(self._credential_file)], environment | database)
        self.until(self.ready, "ready", START_S)
        return self

    @property
    def operator(self) -> Credential:
        """The credential of an operator above all tenants."""
        return Credential.from_exports(self._credential_file.read_text(encoding="ascii"))

    @property
    def database_url(self) -> str:
        return self._postgres.url

    def ready(self) -> bool:
        """Return whether requests are answered, and the scheduler works."""
        if not self.shared.leading:
            return False
        try:
            return self._http.get("/readyz").status_code == 200
        except httpx.HTTPError:
            return False

    def log_follows(self) -> bool:
        """Return whether the store's log has the present time: a leader stamps by the times
        of a majority of nodes.
        """
        enough = 1 if self._nodes == 1 else _LOOKS_TO_HEAR
        return all(self.shared.looks(node) > enough for node in range(1, self._nodes + 1))

    def until(self, true: Callable[[], bool], what: str, within_s: float) -> None:
        """Waits in real time. Raises NotStarted."""
        deadline_s = time.monotonic() + within_s
        waited = threading.Event()
        while not true():
            for name, process in self._children:
                if process.poll() is not None:
                    raise NotStarted(f"{name} ended:\n{self._tail(name)}")
            if time.monotonic() > deadline_s:
                raise NotStarted(f"not {what} after {within_s:.0f} s:\n{self._tail('server')}")
            waited.wait(LOOK_EVERY_S)

    def stop(self) -> None:
        """Stop all processes and remove all files."""
        self._http.close()
        for _, process in self._children:
            process.kill()  # its data goes with it: nothing has to be written down any more
        for _, process in self._children:
            process.wait()
        self._postgres.stop()
        self.shared.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _environment(self, ports: list[int]) -> dict[str, str]:
        inherited = inherited_environment().items()
        nodes = {node: ("127.0.0.1", port) for node, port in enumerate(ports, 1)}
        return {name: value for name, value in inherited if not name.startswith("PACKETBOAT_")} | {
            "PACKETBOAT_PORT": str(self.port),
            "PACKETBOAT_STORE_NODES": format_addresses(nodes),
            "PACKETBOAT_STORE_GROUPS": str(GROUPS),
            "PACKETBOAT_CLUSTER_UID": secrets.token_hex(16),
            "PACKETBOAT_STORE_SECRET": secrets.token_hex(32),
            "PACKETBOAT_ACK_SECRET": secrets.token_hex(32),
            "PACKETBOAT_SEAL_KEYS": f"a:{secrets.token_hex(32)}",
            "PACKETBOAT_ISSUER": self.url,
            "PACKETBOAT_EGRESS_ALLOWED": ",".join(LOOPBACK),
            "PACKETBOAT_LOG_LEVEL": "info",
        }

    def _spawn(self, name: str, arguments: list[str], environment: dict[str, str]) -> None:
        kind, *rest = arguments
        # -P: not the directory that the tests run in, which may have modules of any name.
        program = [sys.executable, "-P", str(PROGRAM)]
        command = [*program, kind, str(self.directory / "clock"), *rest]
        with self._log(name) as log:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,
                preexec_fn=die_with(os.getpid()),
            )
        self._children.append((name, process))

    def _log(self, name: str) -> IO[bytes]:
        return open_private_log(self.directory / f"{name}.log")

    def _tail(self, name: str, max_bytes: int = 3000) -> str:
        return (self.directory / f"{name}.log").read_bytes()[-max_bytes:].decode(errors="replace")


def free_port() -> int:
    """Return a port that nobody listens at now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
