"""A disk in memory that loses what was not synced, and shortcuts for logs on it."""

from __future__ import annotations

import errno
import random
from collections.abc import Sequence
from pathlib import Path

from store_nodes.wal.frame import FrameKind, Record
from store_nodes.wal.log import WriteAheadLog
from store_nodes.wal.position import Position
from store_nodes.wal.recovery import Recovery

DIRECTORY = Path("/disk/wal")
CLUSTER = bytes(range(16))
SEGMENT_BYTES = 32 * 1024
SECTOR_BYTES = 512


class PowerCut(BaseException):
    """The process is gone; nothing may catch it."""


class Inode:
    """`durable` is what is on the platter, `live` what a running process sees."""

    def __init__(self) -> None:
        self.live = bytearray()
        self.durable = bytearray()
        self.dirty: set[int] = set()

    def touch(self, start: int, end: int) -> None:
        self.dirty.update(range(start // SECTOR_BYTES, (end + SECTOR_BYTES - 1) // SECTOR_BYTES))

    def sync(self) -> None:
        self.durable = bytearray(self.live)
        self.dirty.clear()

    def lose(self, luck: random.Random) -> None:
        """Lose unsynced sectors at random, and perhaps the new size."""
        new = bytearray(self.durable)
        if len(self.live) != len(new) and luck.random() < 0.5:
            del new[len(self.live) :]
            new.extend(bytes(len(self.live) - len(new)))
        share = luck.choice((0.0, 0.5, 1.0))
        for sector in sorted(self.dirty):
            at = sector * SECTOR_BYTES
            piece = self.live[at : at + SECTOR_BYTES]
            if at + len(piece) <= len(new) and luck.random() < share:
                new[at : at + len(piece)] = piece
        self.live = new
        self.sync()


class SimDisk:
    """One directory. `cut` ends the process and decides what was lost."""

    def __init__(self, seed: int = 0) -> None:
        self.luck = random.Random(seed)
        self.calls: list[tuple[str, int]] = []
        self.read_bytes: dict[str, int] = {}
        self.cut_after: int | None = None
        self.failing: dict[str, int] = {}
        """Name of a call → errno it raises from now on."""
        self._entries: dict[str, Inode] = {}
        self._durable: dict[str, Inode] = {}
        self._changes: list[dict[str, Inode]] = []
        self._open: dict[int, tuple[Inode, str]] = {}
        self._next_fd = 3
        self._locked: int | None = None

    def cut(self) -> None:
        """Turn the power off and on again.

        Name changes since the last directory sync are lost from some point on, as a journal loses
        them.
        """
        states = [self._durable, *self._changes]
        self._entries = dict(self.luck.choice(states))
        for inode in set(self._entries.values()):
            inode.lose(self.luck)
        self._durable = dict(self._entries)
        self._forget_process()

    def kill(self) -> None:
        """kill -9: the page cache stays."""
        self._forget_process()

    def _forget_process(self) -> None:
        self._open.clear()
        self._locked = None
        self.cut_after = None
        self.failing.clear()
        self.calls.clear()

    def inode(self, name: str) -> Inode:
        return self._entries[name]

    def damage(self, name: str, at: int, raw: bytes) -> None:
        """Rot: it was durable, and is this now."""
        inode = self._entries[name]
        inode.live[at : at + len(raw)] = raw
        inode.sync()

    def count(self, call: str) -> int:
        return sum(name == call for name, _ in self.calls)

    def _do(self, call: str, fd: int = -1) -> None:
        self.calls.append((call, fd))
        if call in self.failing:
            raise OSError(self.failing[call], call)
        if self.cut_after is not None:
            if self.cut_after == 0:
                raise PowerCut
            self.cut_after -= 1

    def _changed(self) -> None:
        self._changes.append(dict(self._entries))

    def open(self, path: Path, *, create: bool = False) -> int:
        if create:
            self._do("create")
            if path.name in self._entries:
                raise FileExistsError(errno.EEXIST, "there", str(path))
            self._entries[path.name] = Inode()
            self._changed()
        if path.name not in self._entries:
            raise FileNotFoundError(errno.ENOENT, "not there", str(path))
        return self._descriptor(self._entries[path.name], path.name)

    def _descriptor(self, inode: Inode, name: str) -> int:
        self._next_fd += 1
        self._open[self._next_fd] = (inode, name)
        return self._next_fd

    def close(self, fd: int) -> None:
        if fd == self._locked:
            self._locked = None
        if self._open.pop(fd, None) is not None and "close" in self.failing:
            raise OSError(self.failing["close"], "close")

    def write(self, fd: int, buffers: Sequence[bytes], offset: int) -> None:
        data = b"".join(buffers)
        inode, _ = self._open[fd]
        half = len(data) // 2
        for start, piece in ((0, data[:half]), (half, data[half:])):
            self._do("write", fd)
            at = offset + start
            inode.live.extend(bytes(max(0, at + len(piece) - len(inode.live))))
            inode.live[at : at + len(piece)] = piece
            inode.touch(at, at + len(piece))

    def read(self, fd: int, length: int, offset: int) -> bytes:
        inode, name = self._open[fd]
        piece = bytes(inode.live[offset : offset + length])
        self.read_bytes[name] = self.read_bytes.get(name, 0) + len(piece)
        return piece

    def map(self, fd: int) -> memoryview:
        return memoryview(bytes(self._open[fd][0].live))

    def size(self, fd: int) -> int:
        return len(self._open[fd][0].live)

    def allocate(self, fd: int, length: int) -> None:
        self._do("allocate", fd)
        inode, _ = self._open[fd]
        old = len(inode.live)
        inode.live.extend(bytes(max(0, length - old)))
        inode.touch(old, len(inode.live))

    def truncate(self, fd: int, length: int) -> None:
        self._do("truncate", fd)
        inode, _ = self._open[fd]
        inode.touch(length, len(inode.live))
        del inode.live[length:]

    def sync_data(self, fd: int) -> None:
        self._do("sync_data", fd)
        self._open[fd][0].sync()

    def sync(self, fd: int) -> None:
        self._do("sync", fd)
        self._open[fd][0].sync()

    def sync_directory(self, path: Path) -> None:
        self._do("sync_directory")
        self._durable = dict(self._entries)
        self._changes.clear()

    def drop_cache(self, fd: int) -> None:
        pass

    def prefetch(self, path: Path, length: int) -> None:
        pass

    def rename(self, source: Path, target: Path) -> None:
        self._do("rename")
        self._entries[target.name] = self._entries.pop(source.name)
        self._changed()

    def remove(self, path: Path) -> None:
        self._do("remove")
        del self._entries[path.name]
        self._changed()

    def names(self, directory: Path) -> list[str]:
        return sorted(self._entries)

    def make_directory(self, path: Path) -> None:
        pass

    def free_bytes(self, directory: Path) -> int:
        return 1 << 30

    def lock(self, path: Path) -> int:
        if self._locked is not None:
            raise BlockingIOError(errno.EWOULDBLOCK, "locked")
        self._locked = self._descriptor(Inode(), path.name)
        return self._locked

    def random_bytes(self, count: int) -> bytes:
        return self.luck.randbytes(count)


def open_log(
    disk: SimDisk, start_at: Position | None = None, segment_bytes: int = SEGMENT_BYTES
) -> tuple[WriteAheadLog, Recovery]:
    return WriteAheadLog.open(
        DIRECTORY,
        cluster_uid=CLUSTER,
        node_id=1,
        disk=disk,
        segment_bytes=segment_bytes,
        start_at=start_at,
    )


def accept(instance: int, payload: bytes = b"value", group: int = 1) -> Record:
    return Record(FrameKind.ACCEPT, group, instance, 1 << 16 | 1, payload)


def append(log: WriteAheadLog, *records: Record) -> list[Position]:
    """Write records in one flush; return their positions."""
    positions = log.write(records)
    log.sync()
    return positions


def content(recovery: Recovery) -> list[Record]:
    return [record for record, _ in recovery.frames()]
