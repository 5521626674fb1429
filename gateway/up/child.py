"""A child process that is kept running: started again when it dies, with growing pauses between two
starts."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Protocol

from metadata.private_log import open_private_log

FIRST_PAUSE_S = 0.1
MAX_PAUSE_S = 5.0
STEADY_S = 30.0
EXIT_REFUSED = 78
"""A child ends with this where starting it again changes nothing; its log says what does."""
PRIVATE_UMASK = 0o077
"""Messages and logs are their owner's."""
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)


class Process(Protocol):
    """A process that was started: by asyncio, or by the fork server."""

    @property
    def pid(self) -> int: ...

    @property
    def returncode(self) -> int | None: ...

    async def wait(self) -> int: ...


Launch = Callable[[Sequence[str], Mapping[str, str], IO[bytes]], Awaitable[Process]]
"""Starts a command with an environment and a log."""


async def launch_anew(
    command: Sequence[str], environment: Mapping[str, str], log: IO[bytes]
) -> Process:
    """Start a program of its own."""
    return await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        env=environment,
        start_new_session=True,
        preexec_fn=die_with(os.getpid()),
        umask=PRIVATE_UMASK,
    )


class Child:
    """One program of the installation.

    It runs in a session of its own, so that Ctrl-C reaches only the supervisor, and is killed by
    the kernel when the supervisor dies in whatever way. `start` must run on the main thread: the
    kernel ties that promise to the thread that forked.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        environment: Mapping[str, str],
        log: Path,
        *,
        stop_s: float = 10.0,
        launch: Launch = launch_anew,
    ) -> None:
        self.name = name
        self.starts = 0
        self._command = command
        self._environment = environment
        self._log = log
        self._stop_s = stop_s
        self._launch = launch
        self._process: Process | None = None
        self._stopping = asyncio.Event()

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    async def start(self) -> None:
        self.starts += 1
        with open_private_log(self._log) as log:
            self._process = await self._launch(self._command, self._environment, log)

    async def wait(self) -> int:
        assert self._process is not None
        return await self._process.wait()

    async def keep_running(self, note: Callable[[str], None]) -> None:
        """Starts it, and again whenever it dies; returns once `stop` was called, or when it ended
        with `EXIT_REFUSED`."""
        pause_s = FIRST_PAUSE_S
        while not self._stopping.is_set():
            began_s = time.monotonic()
            await self.start()
            ended = await self.wait()
            if self._stopping.is_set():
                return
            if ended == EXIT_REFUSED:
                note(f"{self.name} must not be started again:\n{self.tail()}")
                return
            note(f"{self.name} ended ({_ending(ended)}); starting it again")
            wait_s, pause_s = pauses(time.monotonic() - began_s, pause_s)
            await asyncio.sleep(wait_s)

    async def stop(self) -> None:
        """Send SIGTERM, then SIGKILL when the process has not ended in its time."""
        self._stopping.set()
        process = self._process
        if process is None or process.returncode is not None:
            return
        _signal(process, signal.SIGTERM)
        try:
            async with asyncio.timeout(self._stop_s):
                await process.wait()
        except TimeoutError:
            _signal(process, signal.SIGKILL)
            await process.wait()

    def tail(self, max_bytes: int = 2000) -> str:
        """Return the end of its log, for an error message."""
        try:
            return self._log.read_bytes()[-max_bytes:].decode(errors="replace")
        except FileNotFoundError:
            return ""


def pauses(lived_s: float, pause_s: float) -> tuple[float, float]:
    """Return the seconds before a process that lived for `lived_s` is started again, and the pause
    after its next end.

    A pause is between two starts, so a process that lived longer is started at once. Pauses grow
    until a process has been steady.
    """
    if lived_s > STEADY_S:
        return 0.0, FIRST_PAUSE_S
    return max(0.0, pause_s - lived_s), min(pause_s * 2, MAX_PAUSE_S)


def die_with(parent: int) -> Callable[[], None]:
    """Have the kernel kill this fresh child when its parent dies."""

    def in_child() -> None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # It died before the signal was armed.
            os._exit(1)

    return in_child


def _signal(process: Process, number: signal.Signals) -> None:
    """Send a signal without `Process.send_signal`, which reaps an ended child: asyncio then
    loses its exit code.
    """
    try:
        os.kill(process.pid, number)
    except ProcessLookupError:
        return


def _ending(code: int) -> str:
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
