"""Starts processes of this tree by forking one that has already imported the product.

A server takes two seconds of processor time to import its modules, a store node two thirds of one,
and the tests start hundreds. A forked process runs the same program with its own arguments,
environment, session and output. Tests of how a process starts, and of other releases, start a new
interpreter instead.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import os
import runpy
import secrets
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from benchmarks.settings import inherited_environment
from gateway.middleware import request_id
from gateway.up.child import die_with

ROOT = Path(__file__).parents[1]
MAX_REQUEST = 128 * 1024


class Start(msgspec.Struct, tag="start"):
    """Start `python -m program` with these arguments; its output goes to the file that is sent."""

    program: str
    arguments: list[str]
    environment: dict[str, str]


class Collect(msgspec.Struct, tag="collect"):
    """Return the wait status of a process that has ended."""

    pid: int


_decode = msgspec.json.Decoder(Start | Collect).decode


class Forked(subprocess.Popen[bytes]):
    """A forked process. Its parent is the fork server, which keeps its status until it is asked."""

    def __init__(self, server: ForkServer, pid: int, arguments: Sequence[str]) -> None:
        self.pid = pid
        self.args = arguments
        self.stdin = self.stdout = self.stderr = None
        self.returncode: int | None = None
        self._server = server
        self._end = os.pidfd_open(pid)
        self._lock = threading.Lock()

    def poll(self) -> int | None:
        return self._ended_within(0.0)

    def wait(self, timeout: float | None = None) -> int:
        code = self._ended_within(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def _ended_within(self, timeout_s: float | None) -> int | None:
        """Return the exit code, by the rules of Popen, once the process ends; None if it runs."""
        if self.returncode is None:
            poll = select.poll()
            poll.register(self._end, select.POLLIN)
            if not poll.poll(None if timeout_s is None else timeout_s * 1000):
                return None
            with self._lock:
                if self.returncode is None:
                    self.returncode = os.waitstatus_to_exitcode(self._server.status(self.pid))
                    os.close(self._end)
        return self.returncode


class ForkServer:
    """The process that forks, and the connection to it."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.fork_server", str(theirs.fileno())],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                preexec_fn=die_with(os.getpid()),
            )
        atexit.register(self._end)
        self._connection = ours
        self._lock = threading.Lock()

    def start(
        self, program: str, arguments: Sequence[str], *, log: Path, environment: Mapping[str, str]
    ) -> Forked:
        """Start `python -m program` in a session of its own; it dies with this process."""
        request = Start(program, list(arguments), inherited_environment(**environment))
        with log.open("ab") as output, self._lock:
            socket.send_fds(self._connection, [msgspec.json.encode(request)], [output.fileno()])
            pid = self._answer()
        return Forked(self, pid, [program, *arguments])

    def status(self, pid: int) -> int:
        """Return the wait status of a process that has ended."""
        with self._lock:
            self._connection.send(msgspec.json.encode(Collect(pid)))
            return self._answer()

    def _end(self) -> None:
        """Let the fork server end, and with it what it forked."""
        self._connection.close()
        self._process.wait()

    def _answer(self) -> int:
        answer = self._connection.recv(64)
        if not answer:
            raise RuntimeError(f"the fork server ended: {self._process.wait()}")
        return int(answer)


@functools.cache
def fork_server() -> ForkServer:
    """Return the one of this process; the first call starts it."""
    return ForkServer()


def _serve(connection: socket.socket) -> Start:
    """Fork as asked. Returns in each forked process, and never in the one that forks."""
    dies_with_us = die_with(os.getpid())
    while True:
        encoded, files, _, _ = socket.recv_fds(connection, MAX_REQUEST, 1)
        if not encoded:
            os._exit(0)
        request = _decode(encoded)
        if isinstance(request, Collect):
            _, status = os.waitpid(request.pid, 0)
            connection.send(str(status).encode())
            continue
        (output,) = files
        pid = os.fork()
        if pid == 0:
            connection.close()
            dies_with_us()
            _become(request, output)
            return request
        os.close(output)
        connection.send(str(pid).encode())


def _become(request: Start, output: int) -> None:
    """Make the forked process what a new one would be."""
    os.setsid()
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    os.environ.clear()
    os.environ.update(request.environment)
    sys.argv = [request.program, *request.arguments]
    # Each server begins the ids of its requests in another way.
    request_id._PREFIX = secrets.token_hex(6).encode()
    # By these a store node starts itself again.
    sys.orig_argv[:] = [sys.executable, "-m", request.program, *request.arguments]


def _load() -> None:
    """Import what processes import, so that none of it is looked at or copied again."""
    gc.disable()
    import gateway.command
    import gateway.every_setting
    import gateway.server
    import gateway.workers  # noqa: F401
    import store_nodes.main  # noqa: F401

    gc.freeze()
    gc.enable()


if __name__ == "__main__":
    _load()
    start = _serve(socket.socket(fileno=int(sys.argv[1])))
    runpy.run_module(start.program, run_name="__main__", alter_sys=True)
