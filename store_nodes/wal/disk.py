"""Makes the file calls of the log; tests replace it by a disk that loses unsynced writes.

Every call either does all that its docstring says or raises OSError. Nothing here retries: after a
failed fsync the kernel may have marked the pages clean, so that a second fsync proves nothing.
"""

from __future__ import annotations

import fcntl
import mmap
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

MAX_BUFFERS = 1024
"""Buffers in one call (IOV_MAX on Linux)."""
PREFETCH_END_BYTES = 4096


class Disk(Protocol):
    """The calls to the operating system that the log needs. File descriptors are plain ints."""

    def open(self, path: Path, *, create: bool = False) -> int:
        """Open a file for reading and writing; `create` fails when it exists."""
        ...

    def close(self, fd: int) -> None: ...

    def write(self, fd: int, buffers: Sequence[bytes], offset: int) -> None:
        """Write all of `buffers`, one after another, from `offset` on; they are not durable until a
        sync.
        """
        ...

    def read(self, fd: int, length: int, offset: int) -> bytes:
        """Read up to `length` bytes; fewer only at the end of the file."""
        ...

    def map(self, fd: int) -> memoryview:
        """Map the whole file as it is now, without holding it in memory; the view outlives
        `close`.
        """
        ...

    def size(self, fd: int) -> int: ...

    def allocate(self, fd: int, length: int) -> None:
        """Make the file at least `length` long, every block reserved and reading as zeros."""
        ...

    def truncate(self, fd: int, length: int) -> None: ...

    def sync_data(self, fd: int) -> None:
        """Make the contents durable, with the metadata needed to read them (fdatasync)."""
        ...

    def sync(self, fd: int) -> None:
        """Make the file durable (fsync)."""
        ...

    def sync_directory(self, path: Path) -> None:
        """Make creations, renames and removals in `path` durable."""
        ...

    def drop_cache(self, fd: int) -> None:
        """Ask that the next reads come from the device, not from memory. Best effort."""
        ...

    def prefetch(self, path: Path, length: int) -> None:
        """Ask that the first `length` bytes of a file, and its end, be read soon. Best effort."""
        ...

    def rename(self, source: Path, target: Path) -> None: ...

    def remove(self, path: Path) -> None: ...

    def names(self, directory: Path) -> list[str]: ...

    def make_directory(self, path: Path) -> None: ...

    def free_bytes(self, directory: Path) -> int: ...

    def lock(self, path: Path) -> int:
        """Take an exclusive lock until the returned descriptor is closed; raises
        BlockingIOError.
        """
        ...

    def random_bytes(self, count: int) -> bytes: ...


class OsDisk:
    """The calls of the real operating system."""

    def open(self, path: Path, *, create: bool = False) -> int:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT | os.O_EXCL if create else 0)
        return os.open(path, flags, 0o600)

    def close(self, fd: int) -> None:
        os.close(fd)

    def write(self, fd: int, buffers: Sequence[bytes], offset: int) -> None:
        if len(buffers) > MAX_BUFFERS:
            buffers = [b"".join(buffers)]
        expected = sum(map(len, buffers))
        written = os.pwritev(fd, buffers, offset)
        if written != expected:
            self._write_rest(fd, memoryview(b"".join(buffers)), offset, written)

    def _write_rest(self, fd: int, whole: memoryview, offset: int, written: int) -> None:
        """Write the rest after a short write, which is legal (at 2 GiB); a repetition raises its
        error.
        """
        while written < len(whole):
            more = os.pwrite(fd, whole[written:], offset + written)
            if more == 0:
                raise OSError("write of nothing")
            written += more

    def read(self, fd: int, length: int, offset: int) -> bytes:
        """Return `length` bytes at an offset, or fewer at the end of the file."""
        piece = os.pread(fd, length, offset)
        if len(piece) == length or not piece:
            return piece
        pieces = [piece]
        done = len(piece)
        while done < length and (piece := os.pread(fd, length - done, offset + done)):
            pieces.append(piece)
            done += len(piece)
        return b"".join(pieces)

    def map(self, fd: int) -> memoryview:
        if self.size(fd) == 0:
            return memoryview(b"")
        return memoryview(mmap.mmap(fd, 0, access=mmap.ACCESS_READ))

    def size(self, fd: int) -> int:
        return os.fstat(fd).st_size

    def allocate(self, fd: int, length: int) -> None:
        os.posix_fallocate(fd, 0, length)

    def truncate(self, fd: int, length: int) -> None:
        os.ftruncate(fd, length)

    def sync_data(self, fd: int) -> None:
        os.fdatasync(fd)

    def sync(self, fd: int) -> None:
        os.fsync(fd)

    def sync_directory(self, path: Path) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def drop_cache(self, fd: int) -> None:
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)

    def prefetch(self, path: Path, length: int) -> None:
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        try:
            size = os.fstat(fd).st_size
            os.posix_fadvise(fd, 0, length, os.POSIX_FADV_WILLNEED)
            end = max(0, size - PREFETCH_END_BYTES)
            os.posix_fadvise(fd, end, PREFETCH_END_BYTES, os.POSIX_FADV_WILLNEED)
        finally:
            os.close(fd)

    def rename(self, source: Path, target: Path) -> None:
        os.rename(source, target)

    def remove(self, path: Path) -> None:
        os.unlink(path)

    def names(self, directory: Path) -> list[str]:
        return sorted(os.listdir(directory))

    def make_directory(self, path: Path) -> None:
        """Make a directory with its parents; every directory that gained a name is synced."""
        missing = [one for one in (path, *path.parents) if not one.exists()]
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        for one in missing:
            self.sync_directory(one.parent)

    def free_bytes(self, directory: Path) -> int:
        stats = os.statvfs(directory)
        return stats.f_bavail * stats.f_frsize

    def lock(self, path: Path) -> int:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(fd)
            raise
        return fd

    def random_bytes(self, count: int) -> bytes:
        return os.urandom(count)


def write_atomically(disk: Disk, path: Path, data: bytes) -> None:
    """Replace the file at `path`: after a power cut it holds the old bytes or the new ones.

    Without the directory's fsync the rename itself can be lost (measured on ext4).
    """
    fresh = path.with_name(path.name + ".tmp")
    if fresh.name in disk.names(path.parent):
        disk.remove(fresh)
    fd = disk.open(fresh, create=True)
    try:
        disk.write(fd, [data], 0)
        disk.sync(fd)
    finally:
        disk.close(fd)
    disk.rename(fresh, path)
    disk.sync_directory(path.parent)


def read_whole(disk: Disk, path: Path) -> bytes | None:
    """Return the bytes of a small file; None if it does not exist."""
    try:
        fd = disk.open(path)
    except FileNotFoundError:
        return None
    try:
        return disk.read(fd, disk.size(fd), 0)
    finally:
        disk.close(fd)
