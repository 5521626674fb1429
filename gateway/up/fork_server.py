"""Processes that begin with their modules imported: one process imports them, and forks when asked.

A server takes two seconds of processor time to import its modules, a store node two thirds of one.
So `packetboat up` is two processes. The first one (`run`) forks the supervisor, imports the modules
of store nodes and servers, and then does nothing but fork. It never has a second thread, an event
loop, a file of the installation or a secret, so a forked process finds nothing that it should not
have. The supervisor asks it over a socket (`ForkServer`) for each process, with its arguments,
environment, log and directory. docs/decisions/gateway.md weighs this.

The rules:
- all processes end with the first one, however it ends (PR_SET_PDEATHSIG), and it ends with the
  supervisor;
- signals to the first process reach the supervisor, which decides;
- a forked process has a session, signal handlers and a command line of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import importlib
import io
import os
import select
import signal
import socket
import sys
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import IO, Any

import msgspec

from gateway import heap
from gateway.configuration.settings import replace_environment
from gateway.up.child import PRIVATE_UMASK, Launch, die_with

STORE_NODE = ("gateway.descriptors", "gateway.logs", "store_nodes.main")
SERVER = ("gateway.configuration.every_setting", "gateway.server", "gateway.workers")
MAX_REQUEST = 128 * 1024
_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_ARGUMENTS = slice(45, 47)
"""Fields of /proc/self/stat after the name: where the command line begins and ends in memory."""


class Start(msgspec.Struct, tag="start"):
    """Start a process with this environment and directory, and the files that are sent along as its
    input, output and errors.

    The command is the one that would start it in a new interpreter: the interpreter, one option, a
    program and its arguments.
    """

    command: list[str]
    environment: dict[str, str]
    directory: str


class Collect(msgspec.Struct, tag="collect"):
    """Return the wait status of a process that has ended."""

    pid: int


_decode = msgspec.json.Decoder(Start | Collect).decode


def run(
    supervise: Callable[[Launch], int],
    modules: Iterable[Sequence[str]] = (STORE_NODE, SERVER),
) -> int | Start:
    """Fork a supervisor, import the modules, and fork processes for it until it ends.

    Returns the exit code of the supervisor, also in the supervisor itself. In each process that it
    forks for the supervisor it returns the request, which that process shall carry out.
    """
    assert threading.active_count() == 1, "a thread would not be there after a fork"
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    parent = os.getpid()
    sys.stdout.flush()
    supervisor = os.fork()
    if supervisor == 0:
        ours.close()
        die_with(parent)()
        return supervise(ForkServer(theirs).start)
    theirs.close()
    for number in _FORWARDED:
        signal.signal(number, lambda number, _: _forward(number, supervisor))
    os.umask(PRIVATE_UMASK)
    start = serve(ours, [partial(load, names) for names in modules])
    if start is not None:
        return start
    _, status = os.waitpid(supervisor, 0)
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def load(names: Iterable[str]) -> None:
    """Import modules, so that no forked process looks at them or copies them."""
    with heap.loading():
        for name in names:
            importlib.import_module(name)


def serve(connection: socket.socket, loads: Iterable[Callable[[], None]]) -> Start | None:
    """Make each of the loads, with the requests that have come before the next, and then serve.

    Returns the request in each process that it forks; None once the other side has closed.
    """
    dies_with_us = die_with(os.getpid())
    for request, files in _requests(connection, loads):
        if isinstance(request, Collect):
            _, status = os.waitpid(request.pid, 0)
            connection.send(b"%d" % status)
            continue
        pid = os.fork()
        if pid == 0:
            connection.close()
            dies_with_us()
            _become(request, files)
            return request
        for file in files:
            os.close(file)
        connection.send(b"%d" % pid)
    return None


def _requests(
    connection: socket.socket, loads: Iterable[Callable[[], None]]
) -> Iterator[tuple[Start | Collect, list[int]]]:
    waiting = select.poll()
    waiting.register(connection, select.POLLIN)
    for make in loads:
        make()
        while waiting.poll(0):
            if (received := _receive(connection)) is None:
                return
            yield received
    while (received := _receive(connection)) is not None:
        yield received


def _receive(connection: socket.socket) -> tuple[Start | Collect, list[int]] | None:
    """Return a request and the files that came with it; None once the other side has closed."""
    encoded, files, _, _ = socket.recv_fds(connection, MAX_REQUEST, 3)
    return (_decode(encoded), files) if encoded else None


def _become(request: Start, files: Sequence[int]) -> None:
    """Make the forked process what a new one would be."""
    os.setsid()
    for own, file in enumerate(files):
        os.dup2(file, own)
        os.close(file)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=sys.stdout.isatty())
    # A process that was begun in the background would not hear Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    os.chdir(request.directory)
    replace_environment(request.environment)
    sys.argv = request.command[2:]
    sys.orig_argv[:] = request.command  # By these a store node starts itself again.
    _show(["packetboat", *request.command[3:]])


def _show(command: Sequence[str]) -> None:
    """Have `ps` and /proc show this command line, cut where it is longer than the parent's."""
    fields = Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()
    begin, end = map(int, fields[_ARGUMENTS])
    if begin:  # 0 where the kernel does not tell
        room = end - begin
        text = "\0".join(command).encode()[: room - 1]
        ctypes.memmove(begin, text.ljust(room, b"\0"), room)


def _forward(number: int, supervisor: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(supervisor, number)


class ForkServer:
    """The supervisor's side: asks for processes."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self._connection = connection
        self._turn = asyncio.Lock()

    async def start(
        self, command: Sequence[str], environment: Mapping[str, str], log: IO[bytes]
    ) -> ForkedProcess:
        """Start a process whose output goes to the log, and which has no input."""
        start = Start(list(command), dict(environment), str(Path.cwd()))
        null = os.open(os.devnull, os.O_RDONLY)
        asking = asyncio.ensure_future(self._ask(start, (null, log.fileno(), log.fileno())))
        try:
            return ForkedProcess(await asyncio.shield(asking), self._status)
        except asyncio.CancelledError:
            pid = await asking
            os.kill(pid, signal.SIGKILL)
            await self._status(pid)
            raise
        finally:
            os.close(null)

    async def _status(self, pid: int) -> int:
        """Return the wait status of a process that has ended."""
        return await self._ask(Collect(pid))

    async def _ask(self, request: Start | Collect, files: Sequence[int] = ()) -> int:
        """Return the answer. It must not be cancelled: the next one would get that answer."""
        async with self._turn:
            socket.send_fds(self._connection, [msgspec.json.encode(request)], list(files))
            return int(await asyncio.get_running_loop().sock_recv(self._connection, 64))


class ForkedProcess:
    """A process whose parent is the fork server, which keeps its status until it is asked."""

    def __init__(self, pid: int, status: Callable[[int], Coroutine[Any, Any, int]]) -> None:
        self.pid = pid
        self._status = status
        self._ending = asyncio.ensure_future(self._end())

    @property
    def returncode(self) -> int | None:
        return self._ending.result() if self._ending.done() else None

    async def wait(self) -> int:
        return await asyncio.shield(self._ending)

    async def _end(self) -> int:
        ended = asyncio.Event()
        handle = os.pidfd_open(self.pid)
        loop = asyncio.get_running_loop()
        loop.add_reader(handle, ended.set)
        try:
            await ended.wait()
        finally:
            loop.remove_reader(handle)
            os.close(handle)
        return os.waitstatus_to_exitcode(await self._status(self.pid))
