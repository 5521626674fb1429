"""The seam between checkpoints and the file system, so that tests can cut the power at any step."""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Iterable
from hashlib import blake2b
from pathlib import Path
from typing import Protocol

DIGEST_BYTES = 32
_CHUNK_BYTES = 4 * 1024 * 1024


class Files(Protocol):
    """One directory of small files. Any OSError is fatal to the node: see `CheckpointStore`."""

    def names(self) -> list[str]: ...

    def read(self, name: str) -> bytes | None:
        """The whole file, or None if there is none of that name."""

    def view(self, name: str) -> memoryview | None:
        """As `read`, without holding a large file in memory."""

    def write_synced(self, name: str, data: bytes) -> None:
        """Make or replace the file and fsync it; its name is durable only after
        `sync_directory`."""

    def write_parts_synced(
        self, name: str, head_bytes: int, parts: Iterable[bytes], head: Callable[[], bytes]
    ) -> tuple[int, bytes]:
        """As `write_synced` for a large file: the parts as they come, and before them `head_bytes`
        that are only known after the last part. The file's length and blake2b-256."""

    def rename(self, old: str, new: str) -> None:
        """Atomic, and durable only after `sync_directory`."""

    def remove(self, name: str) -> None: ...

    def sync_directory(self) -> None: ...


class OsFiles:
    """`Files` over a real directory, which must exist."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def names(self) -> list[str]:
        return sorted(entry.name for entry in os.scandir(self._directory) if entry.is_file())

    def read(self, name: str) -> bytes | None:
        try:
            return (self._directory / name).read_bytes()
        except FileNotFoundError:
            return None

    def view(self, name: str) -> memoryview | None:
        try:
            with open(self._directory / name, "rb") as file:
                if os.fstat(file.fileno()).st_size == 0:
                    return memoryview(b"")
                return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        except FileNotFoundError:
            return None

    def write_synced(self, name: str, data: bytes) -> None:
        with open(self._directory / name, "wb", buffering=0) as file:
            _write_all(file.fileno(), data, 0)
            os.fsync(file.fileno())

    def write_parts_synced(
        self, name: str, head_bytes: int, parts: Iterable[bytes], head: Callable[[], bytes]
    ) -> tuple[int, bytes]:
        with open(self._directory / name, "w+b", buffering=0) as file:
            at = head_bytes
            for part in parts:
                at = _write_all(file.fileno(), part, at)
            _write_all(file.fileno(), head(), 0)
            os.fsync(file.fileno())
            digest = blake2b(digest_size=DIGEST_BYTES)
            file.seek(0)
            while chunk := file.read(_CHUNK_BYTES):
                digest.update(chunk)
            return at, digest.digest()

    def rename(self, old: str, new: str) -> None:
        os.rename(self._directory / old, self._directory / new)

    def remove(self, name: str) -> None:
        os.unlink(self._directory / name)

    def sync_directory(self) -> None:
        handle = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _write_all(handle: int, data: bytes, at: int) -> int:
    """Where it ends."""
    rest = memoryview(data)
    while rest:
        written = os.pwrite(handle, rest, at)
        at += written
        rest = rest[written:]
    return at
