"""The seam between checkpoints and the file system, so that tests can cut the power at any step."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol


class Files(Protocol):
    """One directory of small files. Any OSError is fatal to the node: see `CheckpointStore`."""

    def names(self) -> list[str]: ...

    def read(self, name: str) -> bytes | None:
        """The whole file, or None if there is none of that name."""

    def write_synced(self, name: str, data: bytes) -> None:
        """Make or replace the file and fsync it; its name is durable only after
        `sync_directory`."""

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

    def write_synced(self, name: str, data: bytes) -> None:
        with open(self._directory / name, "wb", buffering=0) as file:
            rest = memoryview(data)
            while rest:
                rest = rest[file.write(rest) :]
            os.fsync(file.fileno())

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
