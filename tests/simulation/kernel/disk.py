"""The file system of a simulated machine, and the `Disk` of a process on it.

A power cut loses what was not synced: any set of sectors of a file's contents, and a directory's
changes from some point on. A write can be torn, go astray or be read back rotten; a sync can take
long. Every call that changes something is an effect at which its process may die half-way.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tests.simulation.kernel.world import Killed

if TYPE_CHECKING:
    from tests.simulation.kernel.world import Process, World

SECTOR_BYTES = 512
SIZE_BYTES = 1 << 40


class Inode:
    """`durable` is what is on the platter, `live` what processes see."""

    __slots__ = ("dirty", "durable", "live")

    def __init__(self) -> None:
        self.live = bytearray()
        self.durable = bytearray()
        self.dirty: set[int] = set()

    def write(self, data: bytes | bytearray | memoryview, offset: int) -> None:
        end = offset + len(data)
        if len(self.live) < end:
            self.live.extend(bytes(end - len(self.live)))
        self.live[offset:end] = data
        self.touch(offset, end)

    def touch(self, start: int, end: int) -> None:
        self.dirty.update(range(start // SECTOR_BYTES, -(-end // SECTOR_BYTES)))

    def sync(self) -> None:
        size = len(self.live)
        if len(self.durable) > size:
            del self.durable[size:]
        elif len(self.durable) < size:
            self.durable.extend(bytes(size - len(self.durable)))
        for sector in self.dirty:
            at = sector * SECTOR_BYTES
            if at < size:
                self.durable[at : at + SECTOR_BYTES] = self.live[at : at + SECTOR_BYTES]
        self.dirty.clear()

    def lose(self, world: World) -> None:
        """Lose some of the unsynced sectors; the others reached the disk, and the new size
        or not.
        """
        new = self.durable
        if len(self.live) != len(new) and world.chance(0.5):
            del new[len(self.live) :]
            new.extend(bytes(len(self.live) - len(new)))
        share = (0.0, 0.5, 1.0)[world.below(3)]
        for sector in sorted(self.dirty):
            at = sector * SECTOR_BYTES
            piece = self.live[at : at + SECTOR_BYTES]
            if at + len(piece) <= len(new) and world.chance(share):
                new[at : at + len(piece)] = piece
        self.live = bytearray(new)
        self.dirty.clear()


class Directory:
    """The names of a directory now, those on the platter, and the changes between, in order."""

    def __init__(self) -> None:
        self.names: dict[str, Inode] = {}
        self.durable: dict[str, Inode] = {}
        self.changes: list[tuple[str, Inode | None]] = []

    def put(self, name: str, inode: Inode) -> None:
        self.names[name] = inode
        self.changes.append((name, inode))

    def remove(self, name: str) -> None:
        del self.names[name]
        self.changes.append((name, None))

    def sync(self) -> None:
        self.durable = dict(self.names)
        self.changes.clear()

    def lose(self, world: World) -> None:
        names = dict(self.durable)
        for name, inode in self.changes[: world.below(len(self.changes) + 1)]:
            if inode is None:
                names.pop(name, None)
            else:
                names[name] = inode
        self.names = names
        self.sync()


class MachineFiles:
    """All directories of one machine; they outlive its processes."""

    def __init__(self, world: World, host: str) -> None:
        self.world = world
        self.host = host
        self.directories: dict[str, Directory] = {}
        self.free_bytes = SIZE_BYTES
        self.slowness = 1
        """The factor by which syncs take longer."""
        self.stall = 0.0
        """The chance that a call on the disk takes up to `stall_us`."""
        self.stall_us = 0
        self.making_us: dict[str, int] = {}
        """The limit of the extra time to make a file in each directory."""
        self.strays = 0
        """The number of next writes that go to another place of their file."""
        self.stalled_calls = 0
        self.torn = 0
        """Writes that a power cut or a kill left in part."""
        self.on_named: Callable[[str, set[str]], None] | None = None
        """Called with a directory and the names in it that have just become durable or gone."""
        self._locks: dict[str, Process] = {}

    def cut_power(self) -> None:
        inodes: dict[int, Inode] = {}
        for directory in self.directories.values():
            directory.lose(self.world)
            for inode in directory.names.values():
                inodes[id(inode)] = inode
        for inode in inodes.values():
            if inode.dirty:
                self.torn += 1
            inode.lose(self.world)
        self._locks.clear()

    def forget(self, process: Process) -> None:
        """Release the locks of a process that has ended."""
        self._locks = {path: owner for path, owner in self._locks.items() if owner is not process}

    def wipe(self) -> None:
        """Another disk is in its place, and what the old one was to misdirect is gone with it."""
        self.directories.clear()
        self.strays = 0

    def take_lock(self, path: str, process: Process) -> None:
        if path in self._locks:
            raise BlockingIOError(errno.EWOULDBLOCK, "locked", path)
        self._locks[path] = process

    def free_lock(self, path: str) -> None:
        self._locks.pop(path, None)

    def paths(self) -> list[tuple[str, str]]:
        """Return (directory, name) of every file."""
        return [
            (path, name) for path, one in self.directories.items() for name in sorted(one.names)
        ]

    def inode(self, directory: str, name: str) -> Inode:
        return self.directories[directory].names[name]

    def rot(self, inode: Inode, at: int, size: int = 1) -> None:
        """Bytes that were synced are others now."""
        for place in range(at, min(at + size, len(inode.live))):
            flipped = inode.live[place] ^ (1 + self.world.below(255))
            inode.live[place] = flipped
            if place < len(inode.durable):
                inode.durable[place] = flipped


class ProcessDisk:
    """`store_nodes.wal.disk.Disk`, for one life of one process."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._world = process.world
        self._files = process.machine.files
        self._open: dict[int, Inode] = {}
        self._locked: dict[int, str] = {}
        self._next_fd = 3
        self.syncs = 0

    # -- time and death ------------------------------------------------------------------------

    def _effect(self, least_us: int, most_us: int) -> None:
        """Something that changes the disk begins; it takes a while."""
        process = self._process
        process.may_die()
        files = self._files
        world = self._world
        delay_us = (least_us + world.below(most_us)) * files.slowness
        if files.stall and world.chance(files.stall):
            files.stalled_calls += 1
            delay_us += world.below(files.stall_us)
        fiber = world.current
        if fiber is not None and fiber.process is process:
            fiber.park(delay_us)

    def _look(self) -> None:
        """Something is read; it takes time only where the disk stalls."""
        process = self._process
        if process.dead:
            raise Killed
        files = self._files
        if files.stall and self._world.chance(files.stall / 10):
            files.stalled_calls += 1
            fiber = self._world.current
            if fiber is not None and fiber.process is process:
                fiber.park(self._world.below(files.stall_us))

    def _directory(self, path: Path) -> Directory:
        found = self._files.directories.get(str(path))
        if found is None:
            raise FileNotFoundError(errno.ENOENT, "no such directory", str(path))
        return found

    # -- Disk ----------------------------------------------------------------------------------

    def open(self, path: Path, *, create: bool = False) -> int:
        if create:
            self._effect(1, 20 + self._files.making_us.get(str(path.parent), 0))
        elif self._process.dead:
            raise Killed
        directory = self._directory(path.parent)
        inode = directory.names.get(path.name)
        if create:
            if inode is not None:
                raise FileExistsError(errno.EEXIST, "there", str(path))
            inode = Inode()
            directory.put(path.name, inode)
        elif inode is None:
            raise FileNotFoundError(errno.ENOENT, "not there", str(path))
        return self._descriptor(inode)

    def _descriptor(self, inode: Inode) -> int:
        self._next_fd += 1
        self._open[self._next_fd] = inode
        return self._next_fd

    def close(self, fd: int) -> None:
        self._open.pop(fd, None)
        path = self._locked.pop(fd, None)
        if path is not None and not self._process.dead:
            self._files.free_lock(path)

    def write(self, fd: int, buffers: Sequence[bytes], offset: int) -> None:
        data = b"".join(buffers)
        inode = self._open[fd]
        files = self._files
        if files.strays and len(data) >= SECTOR_BYTES and len(inode.live) > 2 * len(data):
            files.strays -= 1
            self._effect(1, 30)
            inode.touch(offset, offset + len(data))
            away = self._world.below((len(inode.live) - len(data)) // SECTOR_BYTES) * SECTOR_BYTES
            inode.write(data, away)
            self._world.hit("misdirected write")
            return
        if self._process.doom == 0 and len(data) > 1:
            # It dies in the middle of this write.
            files.torn += 1
            inode.write(data[: 1 + self._world.below(len(data) - 1)], offset)
        self._effect(1, 30)
        inode.write(data, offset)

    def read(self, fd: int, length: int, offset: int) -> bytes:
        self._look()
        return bytes(self._open[fd].live[offset : offset + length])

    def map(self, fd: int) -> memoryview:
        self._look()
        return memoryview(bytes(self._open[fd].live))

    def size(self, fd: int) -> int:
        return len(self._open[fd].live)

    def allocate(self, fd: int, length: int) -> None:
        self._effect(1, 50)
        inode = self._open[fd]
        old = len(inode.live)
        if length > old:
            inode.live.extend(bytes(length - old))
            inode.touch(old, length)

    def truncate(self, fd: int, length: int) -> None:
        self._effect(1, 30)
        inode = self._open[fd]
        old = len(inode.live)
        if length < old:
            inode.touch(length, old)
            del inode.live[length:]
        else:
            inode.live.extend(bytes(length - old))

    def sync_data(self, fd: int) -> None:
        inode = self._open[fd]
        self.syncs += 1
        self._effect(50, 1500)
        inode.sync()

    def sync(self, fd: int) -> None:
        self.sync_data(fd)

    def sync_directory(self, path: Path) -> None:
        directory = self._directory(path)
        self._effect(50, 800)
        names = {name for name, _ in directory.changes}
        directory.sync()
        if self._files.on_named is not None:
            self._files.on_named(str(path), names)

    def drop_cache(self, fd: int) -> None:
        self._look()

    def prefetch(self, path: Path, length: int) -> None:
        pass

    def rename(self, source: Path, target: Path) -> None:
        self._effect(1, 20)
        directory = self._directory(source.parent)
        inode = directory.names.get(source.name)
        if inode is None:
            raise FileNotFoundError(errno.ENOENT, "not there", str(source))
        directory.put(target.name, inode)
        directory.remove(source.name)

    def remove(self, path: Path) -> None:
        self._effect(1, 20)
        directory = self._directory(path.parent)
        if path.name not in directory.names:
            raise FileNotFoundError(errno.ENOENT, "not there", str(path))
        directory.remove(path.name)

    def names(self, directory: Path) -> list[str]:
        self._process.check_alive()
        return sorted(self._directory(directory).names)

    def make_directory(self, path: Path) -> None:
        """Directories are durable at once: what is lost of them is not the product's to know."""
        self._process.check_alive()
        self._files.directories.setdefault(str(path.parent), Directory())
        self._files.directories.setdefault(str(path), Directory())

    def free_bytes(self, directory: Path) -> int:
        used = sum(
            len(inode.live)
            for one in self._files.directories.values()
            for inode in one.names.values()
        )
        return max(0, self._files.free_bytes - used)

    def lock(self, path: Path) -> int:
        self._process.check_alive()
        self._files.take_lock(str(path), self._process)
        fd = self._descriptor(Inode())
        self._locked[fd] = str(path)
        return fd

    def random_bytes(self, count: int) -> bytes:
        return self._world.rng.randbytes(count)
