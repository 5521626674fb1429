"""A driver process, as the runner sees it: lines in, lines out, and a certain end.

It runs in a session of its own, so that all processes that it started can be found and ended with
it: Spark's JVM, and the Python workers of a local master. If the runner dies in any way, the kernel
kills the driver, and the JVM ends by the end of its input. `start` must run on the main thread: the
kernel ties that guarantee to the thread that forked.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from spark_exports.order import FromDriver, FromRunner

MAX_LINE_BYTES = 64 * 1024 * 1024
MAX_LOG_LINE_CHARS = 65_536
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)
_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[FromDriver] = msgspec.json.Decoder(FromDriver)


class BadLine(Exception):
    """The driver wrote a line that is no message."""


class Driver:
    """A driver process; the caller of `start` must call `end`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._cleared = False
        self._ended = asyncio.Event()
        # `Process.wait` is not used: in some versions of Python it waits until all processes that
        # inherited the pipes have closed them.
        loop = asyncio.get_running_loop()
        try:
            ended = os.pidfd_open(process.pid)
        except ProcessLookupError:
            self._ended.set()
            return

        def end() -> None:
            loop.remove_reader(ended)
            os.close(ended)
            self._ended.set()

        loop.add_reader(ended, end)

    @classmethod
    async def start(
        cls,
        command: Sequence[str],
        environment: Mapping[str, str],
        directory: Path,
        *,
        nice: int = 0,
    ) -> Driver:
        """Start a driver. Raises OSError if there is no such program."""
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environment,
            cwd=directory,
            start_new_session=True,
            preexec_fn=_in_child(os.getpid(), nice),
            umask=0o077,
            limit=MAX_LINE_BYTES,
        )
        return cls(process)

    @property
    def pid(self) -> int:
        return self._process.pid

    async def tell(self, message: FromRunner) -> None:
        """Send a message; it is no error if the driver has ended."""
        assert self._process.stdin is not None
        with suppress(ConnectionError):
            self._process.stdin.write(_encoder.encode(message) + b"\n")
            await self._process.stdin.drain()

    async def hear(self) -> FromDriver | None:
        """Return the next message; None if the driver closed its output. Raises BadLine."""
        assert self._process.stdout is not None
        while True:
            try:
                line = await self._process.stdout.readline()
            except ValueError:
                raise BadLine(f"a line of more than {MAX_LINE_BYTES} bytes") from None
            if not line:
                return None
            if line.isspace():
                continue
            try:
                return _decoder.decode(line)
            except msgspec.DecodeError as error:
                raise BadLine(f"{error}: {line[:200]!r}") from None

    async def log_into(self, add: Callable[[str], None]) -> None:
        """Pass on the lines of its stderr until that is closed."""
        assert self._process.stderr is not None
        rest = ""
        while data := await self._process.stderr.read(65_536):
            *lines, rest = (rest + data.decode(errors="replace")).replace("\r", "\n").split("\n")
            for line in filter(None, lines):
                add(line)
            rest = rest[-MAX_LOG_LINE_CHARS:]
        if rest:
            add(rest)

    async def clear_up(self) -> None:
        """Wait for its end, and then kill all that it started.

        Only then are its outputs closed for certain.
        """
        await self._ended.wait()
        self.kill()

    async def end(self, grace_s: float) -> int:
        """Wait for its end, and kill it after `grace_s`; return the exit code.

        Nothing that it started is left afterwards. A negative code is the signal that ended it.
        """
        try:
            async with asyncio.timeout(grace_s):
                await self._ended.wait()
        except TimeoutError:
            pass
        finally:
            # Also if this task is cancelled: nothing may go on without the runner.
            self.kill()
        await self._ended.wait()
        return await self._process.wait()

    def kill(self) -> None:
        """Kill it, and all that it started."""
        if not self._cleared:
            _kill_session(self._process.pid)
        # Once it is dead, no process of its session can start another.
        self._cleared = self._ended.is_set()


def ending(code: int) -> str:
    """Return an exit code as text for people."""
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


def _in_child(parent: int, nice: int) -> Callable[[], None]:
    """Return a function for a fresh child, which makes the kernel kill it when its parent dies."""

    def in_child() -> None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # the parent died before the signal was set
            os._exit(1)
        os.nice(nice)

    return in_child


def _kill_session(session: int) -> None:
    """Kill all processes of a session, its first one too, until a look finds no new one."""
    killed: set[int] = set()
    while found := set(_members(session)) - killed:
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        killed |= found


def _members(session: int) -> Iterator[int]:
    """Yield the processes of a session that are not dead."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        state, of_session = fields[0], int(fields[3])
        if of_session == session and state not in "ZX":
            yield int(entry.name)
