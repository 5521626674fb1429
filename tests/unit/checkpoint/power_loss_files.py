"""`Files` in memory that may lose at a power cut what was not synced."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from hashlib import blake2b


class PowerCut(Exception):
    """The power went; nothing after this call happened."""


class PowerLossFiles:
    """A directory whose names and contents are durable only after their syncs.

    `cut_after` operations succeed; the next may happen or not, and raises PowerCut.
    """

    def __init__(self) -> None:
        self.cut_after: int | None = None
        self.operations = 0
        self._inodes: dict[int, bytes] = {}
        self._unsynced: set[int] = set()
        self._names: dict[str, int] = {}
        self._durable: dict[str, int] = {}
        self._pending: list[tuple[str, str, int]] = []
        """Directory changes since the last sync: (set | remove, name, inode)."""

    def _step(self, luck: bool = False) -> None:
        if self.cut_after is not None and self.operations >= self.cut_after and not luck:
            raise PowerCut
        self.operations += 1

    def names(self) -> list[str]:
        return sorted(self._names)

    def read(self, name: str) -> bytes | None:
        return self._inodes[self._names[name]] if name in self._names else None

    def view(self, name: str) -> memoryview | None:
        raw = self.read(name)
        return None if raw is None else memoryview(raw)

    def write_parts_synced(
        self, name: str, head_bytes: int, parts: Iterable[bytes], head: Callable[[], bytes]
    ) -> tuple[int, bytes]:
        body = b"".join(parts)
        data = head() + body
        assert len(data) == head_bytes + len(body)
        self.write_synced(name, data)
        return len(data), blake2b(data, digest_size=32).digest()

    def write_synced(self, name: str, data: bytes) -> None:
        inode = self._names.get(name)
        if inode is None:
            inode = len(self._inodes)
            self._set("set", name, inode)
        self._inodes[inode] = data
        self._unsynced.add(inode)
        self._step()
        self._unsynced.discard(inode)

    def rename(self, old: str, new: str) -> None:
        self._step()
        inode = self._names[old]
        self._set("set", new, inode)
        self._set("remove", old, inode)

    def remove(self, name: str) -> None:
        self._step()
        self._set("remove", name, self._names[name])

    def sync_directory(self) -> None:
        self._step()
        self._durable = dict(self._names)
        self._pending.clear()

    def _set(self, what: str, name: str, inode: int) -> None:
        self._pending.append((what, name, inode))
        if what == "set":
            self._names[name] = inode
        else:
            del self._names[name]

    def restart(self, luck: random.Random) -> None:
        """Restart with the files as the power cut may leave them.

        Any prefix of the directory changes is there, and of each content that was not synced any
        prefix, or garbage in place.
        """
        names = dict(self._durable)
        for what, name, inode in self._pending[: luck.randint(0, len(self._pending))]:
            if what == "set":
                names[name] = inode
            else:
                names.pop(name, None)
        for inode in sorted(self._unsynced):
            data = self._inodes[inode]
            torn = data[: luck.randint(0, len(data))]
            self._inodes[inode] = torn + bytes(luck.choice([0, len(data) - len(torn)]))
        self._unsynced.clear()
        self._names = names
        self._durable = dict(names)
        self._pending.clear()
        self.cut_after = None
        self.operations = 0

    def damage(self, name: str, bit: int) -> None:
        raw = bytearray(self._inodes[self._names[name]])
        raw[bit // 8 % len(raw)] ^= 1 << bit % 8
        self._inodes[self._names[name]] = bytes(raw)
