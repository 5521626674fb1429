"""The processes that the benchmark starts, none of which outlives it."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import random
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

from gateway.up.child import die_with
from harness.measure import tree
from harness.settings import inherited_environment

FREE_PORTS = range(11_000, 20_000)
"""Ports below those of outgoing connections, and apart from those that `packetboat up` takes."""
_ours: set[int] = set()


class NotReady(RuntimeError):
    """A system under test did not come up; its measurements are skipped for this reason."""


def free_ports(count: int) -> list[int]:
    """Return ports of 127.0.0.1 that were free a moment ago.

    No other process gets them here until this one ends, so a server can listen on its port again
    after a kill.
    """
    found: list[int] = []
    while len(found) < count:
        port = random.choice(FREE_PORTS)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        if _claimed(port):
            found.append(port)
    return found


def _claimed(port: int) -> bool:
    """Claim a port by a lock on its byte of a file; return whether nobody had it."""
    if port in _ours:
        return False
    try:
        fcntl.lockf(_claims(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except BlockingIOError:
        return False
    _ours.add(port)
    return True


@functools.cache
def _claims() -> int:
    """A descriptor, open for as long as this process lives: closing it gives all claims back."""
    path = Path(tempfile.gettempdir(), f"packetboat-ports-{os.getuid()}")
    return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)


def wait_until(done: Callable[[], bool], *, timeout_s: float, what: str) -> None:
    """Poll `done`; raises NotReady after the timeout."""
    deadline = time.monotonic() + timeout_s
    while not done():
        if time.monotonic() > deadline:
            raise NotReady(f"{what}: not after {timeout_s:.0f} s")
        time.sleep(0.05)


def listening(port: int) -> bool:
    """Return whether something accepts connections at a port."""
    try:
        socket.create_connection(("127.0.0.1", port), 0.5).close()
    except OSError:
        return False
    return True


class Processes:
    """A set of child processes, stopped together on exit; the kernel kills them with us too."""

    def __init__(self) -> None:
        self._running: list[subprocess.Popen[bytes]] = []

    def start(
        self,
        command: Sequence[str | Path],
        *,
        log: Path,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start a process in a session of its own, with nothing on stdin and its output in
        `log`.
        """
        with log.open("ab") as output:
            process = subprocess.Popen(
                [str(part) for part in command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=inherited_environment(**(env or {})),
                cwd=cwd,
                start_new_session=True,
                preexec_fn=die_with(os.getpid()),
            )
        self.add(process)
        return process

    def add(self, process: subprocess.Popen[bytes]) -> None:
        """Stop this one together with the others."""
        self._running.append(process)

    def pids(self) -> list[int]:
        """Return the ids of the processes that run."""
        return [process.pid for process in self._running if process.poll() is None]

    def stop(self, *, grace_s: float = 10.0) -> None:
        """Send SIGTERM, then SIGKILL to the rest of their trees."""
        everything = tree(self.pids())
        for process in self._running:
            if process.poll() is None:
                process.terminate()
        deadline = time.monotonic() + grace_s
        for process in self._running:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.1, deadline - time.monotonic()))
        for pid in everything:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for process in self._running:
            process.wait()
        self._running.clear()

    def __enter__(self) -> Processes:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
