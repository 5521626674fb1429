"""The directory of drivers' files. The next runner deletes the files that a killed runner left."""

from __future__ import annotations

import fcntl
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import IO


class StateDirInUse(Exception):
    """Another runner uses the directory."""


class StateDir(AbstractContextManager["StateDir"]):
    """The directory of one runner, as long as the context lasts.

    Without a path it is a new one that is deleted afterwards. Entering raises StateDirInUse, or
    OSError.
    """

    def __init__(self, path: Path | None) -> None:
        self._given = path
        self._lock: IO[bytes] | None = None
        self.path = path.absolute() if path is not None else Path()

    def __enter__(self) -> StateDir:
        if self._given is None:
            self.path = Path(tempfile.mkdtemp(prefix="packetboat-runner-"))
            return self
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = (self.path / "lock").open("ab")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            raise StateDirInUse(
                f"another runner works in {self.path}: give each a --state-dir of its own"
            ) from None
        self._lock = lock
        for left in self.path.glob("run-*"):
            shutil.rmtree(left, ignore_errors=True)
        return self

    def __exit__(self, *_: object) -> None:
        if self._given is None:
            shutil.rmtree(self.path, ignore_errors=True)
        if self._lock is not None:
            self._lock.close()

    @contextmanager
    def of_run(self, uid: str, attempt: int) -> Iterator[Path]:
        """Yield an empty directory, which is deleted after the block."""
        path = self.path / f"run-{uid}-{attempt}"
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(mode=0o700)
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)
