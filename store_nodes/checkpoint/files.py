"""The file calls of checkpoints; tests put others in their place that cut the power at any step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Protocol

from store_nodes.wal.disk import Disk, OsDisk, read_whole

DIGEST_BYTES = 32
_CHUNK_BYTES = 4 * 1024 * 1024


class Files(Protocol):
    """The files of one directory, all small.

    Any OSError is fatal to the node: see `CheckpointStore`.
    """

    def names(self) -> list[str]: ...

    def read(self, name: str) -> bytes | None:
        """Return the whole file, or None if there is none of that name."""

    def view(self, name: str) -> memoryview | None:
        """Return the whole file as a view, without holding a large one in memory; None if there is
        none.
        """

    def write_synced(self, name: str, data: bytes) -> None:
        """Create or replace the file and sync it; its name is durable only after
        `sync_directory`.
        """

    def write_parts_synced(
        self, name: str, head_bytes: int, parts: Iterable[bytes], head: Callable[[], bytes]
    ) -> tuple[int, bytes]:
        """Write a large file like `write_synced`, in parts; return its length and its blake2b-256.

        The parts are written as they come. The `head_bytes` before them are written last, because
        they are known only after the last part.
        """

    def rename(self, old: str, new: str) -> None:
        """Rename a file atomically; the new name is durable only after `sync_directory`."""

    def remove(self, name: str) -> None: ...

    def sync_directory(self) -> None: ...


class DiskFiles:
    """The files of a directory of a disk, which must exist."""

    def __init__(self, directory: Path, disk: Disk | None = None) -> None:
        self._directory = directory
        self._disk = disk or OsDisk()

    def names(self) -> list[str]:
        return self._disk.names(self._directory)

    def read(self, name: str) -> bytes | None:
        return read_whole(self._disk, self._directory / name)

    def view(self, name: str) -> memoryview | None:
        try:
            fd = self._disk.open(self._directory / name)
        except FileNotFoundError:
            return None
        try:
            return self._disk.map(fd)
        finally:
            self._disk.close(fd)

    def write_synced(self, name: str, data: bytes) -> None:
        with self._replaced(name) as fd:
            self._disk.write(fd, [data], 0)
            self._disk.sync(fd)

    def write_parts_synced(
        self, name: str, head_bytes: int, parts: Iterable[bytes], head: Callable[[], bytes]
    ) -> tuple[int, bytes]:
        disk = self._disk
        with self._replaced(name) as fd:
            end = head_bytes
            for part in parts:
                disk.write(fd, [part], end)
                end += len(part)
            disk.write(fd, [head()], 0)
            disk.sync(fd)
            digest = blake2b(digest_size=DIGEST_BYTES)
            for at in range(0, end, _CHUNK_BYTES):
                digest.update(disk.read(fd, min(_CHUNK_BYTES, end - at), at))
            return end, digest.digest()

    @contextmanager
    def _replaced(self, name: str) -> Iterator[int]:
        """Open the file of that name, emptied."""
        path = self._directory / name
        try:
            fd = self._disk.open(path)
        except FileNotFoundError:
            fd = self._disk.open(path, create=True)
        try:
            self._disk.truncate(fd, 0)
            yield fd
        finally:
            self._disk.close(fd)

    def rename(self, old: str, new: str) -> None:
        self._disk.rename(self._directory / old, self._directory / new)

    def remove(self, name: str) -> None:
        self._disk.remove(self._directory / name)

    def sync_directory(self) -> None:
        self._disk.sync_directory(self._directory)
