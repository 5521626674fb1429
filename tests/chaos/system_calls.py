"""System calls of a running process that fail or are slow, by attaching strace to it."""

from __future__ import annotations

import functools
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

ATTACH_TIMEOUT_S = 10.0
SYNC_FAILS = "fdatasync:error=EIO:when=3"
WRITE_FAILS = "pwritev,pwritev2,pwrite64:error=EIO:when=3"


def slow_sync(seconds: float) -> str:
    """Every sync takes this much longer."""
    return f"fdatasync:delay_exit={int(seconds * 1e6)}"


class Injected:
    """A process under `-e inject=SPEC` as long as the context lasts, all its threads too."""

    def __init__(self, pid: int, spec: str) -> None:
        self._pid = pid
        self._spec = spec
        self._strace: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Injected:
        calls = self._spec.partition(":")[0]
        self._strace = subprocess.Popen(
            f"strace -f -q -p {self._pid} -e trace={calls} -e inject={self._spec}".split(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + ATTACH_TIMEOUT_S
        while not _is_traced(self._pid):
            if self._strace.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"strace did not attach to {self._pid}")
            time.sleep(0.01)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._strace is not None
        self._strace.send_signal(signal.SIGINT)
        self._strace.wait(ATTACH_TIMEOUT_S)


def _is_traced(pid: int) -> bool:
    """Return whether every thread of it is traced."""
    try:
        statuses = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/status")]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return all("\nTracerPid:\t0\n" not in status for status in statuses)


@functools.cache
def unavailable() -> str | None:
    """Return why no call can be made to fail here; None when it can. Tries it once."""
    if shutil.which("strace") is None:
        return "failing system calls need strace (apt-get install strace)"
    victim = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        with Injected(victim.pid, SYNC_FAILS):
            return None
    except (OSError, RuntimeError) as error:
        return f"strace does not work here: {error} (user {os.geteuid()})"
    finally:
        victim.kill()
        victim.wait()
