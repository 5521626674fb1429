"""The offset of the clocks of one test server's processes: a file that all of them map.

A test asks for an offset; the server takes it over at a moment when nothing of it waits for
Postgres, and from that moment on the store nodes go by it, too.
"""

from __future__ import annotations

import mmap
import struct
from pathlib import Path

_SLOT = struct.Struct("<q")
_ASKED, _TAKEN, _LEADING, _NODES = 0, 8, 16, 24
MAX_NODES = 16
SIZE_BYTES = _NODES + 16 * MAX_NODES


class SharedClock:
    """Offsets in microseconds; they never become less."""

    def __init__(self, path: Path) -> None:
        """Map an existing file, or a new one of zeros."""
        with path.open("a+b") as file:
            file.truncate(SIZE_BYTES)
            self._map = mmap.mmap(file.fileno(), SIZE_BYTES)

    @property
    def asked_us(self) -> int:
        """The offset that the test wants."""
        return self._read(_ASKED)

    def ask(self, offset_us: int) -> None:
        assert offset_us >= self.asked_us, "time goes forwards"
        _SLOT.pack_into(self._map, _ASKED, offset_us)

    @property
    def taken_us(self) -> int:
        """The offset by which the processes go."""
        return self._read(_TAKEN)

    def take(self, offset_us: int) -> None:
        _SLOT.pack_into(self._map, _TAKEN, offset_us)

    @property
    def leading(self) -> bool:
        """Whether the scheduler works."""
        return bool(self._read(_LEADING))

    def say_leading(self, leading: bool) -> None:
        _SLOT.pack_into(self._map, _LEADING, leading)

    def node_looked(self, node: int) -> None:
        """Note that a store node has looked at the time of day."""
        at = _NODES + 16 * (node - 1)
        looks = self.looks(node) + 1
        _SLOT.pack_into(self._map, at, self.taken_us)
        _SLOT.pack_into(self._map, at + 8, looks)

    def looks(self, node: int) -> int:
        """Return how often the node has seen the present offset."""
        at = _NODES + 16 * (node - 1)
        return self._read(at + 8) if self._read(at) == self.taken_us else 0

    def close(self) -> None:
        self._map.close()

    def _read(self, at: int) -> int:
        value: int = _SLOT.unpack_from(self._map, at)[0]
        return value
