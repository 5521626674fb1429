"""Starts processes of this tree by forking one that has already imported the product.

Tests start hundreds of servers, store nodes and `packetboat up`. They are forked as `up` forks
its own processes (gateway/up/fork_server.py). Tests of how a process starts, and of other releases,
start a new interpreter instead.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import importlib
import os
import pkgutil
import runpy
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from gateway.up.child import die_with
from gateway.up.fork_server import SERVER, STORE_NODE, Collect, Start, load, serve
from harness.settings import inherited_environment

ROOT = Path(__file__).parents[1]
# Typer imports its adapters, and pydantic, when it runs a command.
LOADED = (
    *STORE_NODE,
    *SERVER,
    *("gateway.command", "packetboat.cli.app", "packetboat.cli.main", "typer._adapters"),
)
COMMANDS = ("gateway.commands", "packetboat.cli.commands")


Ran = subprocess.CompletedProcess[str]


class Forked(subprocess.Popen[Any]):
    """A forked process of `python -m program`, or of an entry point, `module:function`.

    Its parent is the fork server, which keeps its status until it is asked. Streams, directory and
    environment are given as to Popen.
    """

    def __init__(self, program: str, arguments: Sequence[str], **options: Any) -> None:
        self._server = fork_server()
        self._lock = threading.Lock()
        super().__init__([program, *arguments], **options)

    def _execute_child(
        self,
        args: Sequence[str],
        _executable: object,
        _preexec: object,
        _close: object,
        _pass: object,
        cwd: Path | None,
        env: Mapping[str, str] | None,
        *more: Any,
    ) -> None:
        """Popen calls it once it has made the pipes, and expects `pid` of it."""
        pipes = more[3:9]
        ends = (pipes[0], pipes[3], pipes[5])
        files = [own if end == -1 else end for own, end in enumerate(ends)]
        environment = dict(os.environ if env is None else env)
        command = [sys.executable, "-m", *args]
        start = Start(command, environment, str(cwd or Path.cwd()))
        self.pid = self._server.fork(start, files)
        self._end = os.pidfd_open(self.pid)
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]

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


def run_forked(program: str, arguments: Sequence[str], *, timeout_s: float, **options: Any) -> Ran:
    """Run a program to its end, as `subprocess.run` does, and return what it said."""
    given = options.pop("input", None)
    streams = {"stdin": subprocess.PIPE} if given is not None else {"stdin": subprocess.DEVNULL}
    streams |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with Forked(program, arguments, text=True, **streams, **options) as process:
        try:
            out, err = process.communicate(given, timeout_s)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(process.args, process.wait(), out, err)


class ForkServer:
    """The process that forks, and the connection to it."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "harness.fork_server", str(theirs.fileno())],
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
        with log.open("ab") as output:
            return Forked(
                program,
                arguments,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=inherited_environment(**environment),
            )

    def fork(self, start: Start, files: Sequence[int]) -> int:
        """Return the id of a process that begins with these files as its input, output, errors."""
        with self._lock:
            socket.send_fds(self._connection, [msgspec.json.encode(start)], list(files))
            return self._answer()

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


def _modules() -> Iterator[str]:
    yield from LOADED
    for package in COMMANDS:
        folder = importlib.import_module(package)
        for module in pkgutil.iter_modules(folder.__path__, f"{package}."):
            yield module.name


def _run(program: str) -> None:
    module, _, function = program.partition(":")
    if function:
        sys.exit(getattr(importlib.import_module(module), function)())
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    asked = serve(socket.socket(fileno=int(sys.argv[1])), [lambda: load(_modules())])
    if asked is None:
        os._exit(0)
    _run(asked.command[2])
