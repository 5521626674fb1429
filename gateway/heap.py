"""The memory of a process that serves: collections of garbage, and freed memory.

Modules, schemas and tables are most of the heap, and stay as long as the process: a collection of
everything takes a tenth of a second, in which nothing is answered, and a busy server has many. So
once a process serves, what is there is set aside. Objects that requests make go by their reference
counts; the collector finds the few cycles among them, and looks at few objects at a time.

glibc keeps the memory that is freed between objects that stay. A flood of TLS handshakes left 290
MiB of it to a process that used 50. So a thread gives freed memory back whenever a process has
grown. And large blocks, such as bodies and answers of megabytes, get pages of their own, which go
back as soon as they are freed: glibc stops that by itself after it has freed one.
"""

from __future__ import annotations

import ctypes
import gc
import math
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

YOUNG = 700
"""Objects made and not gone, after which a collection looks at the youngest."""
MIDDLE = 2
"""Collections of the youngest before one that looks at their survivors too. It looks at 2,800
objects at most, which takes some 2 ms; nothing is answered meanwhile."""
OLD = 2_000
"""Collections of the survivors before one that looks at everything: four million objects."""
GROWN_BYTES = 16 * 2**20
"""Growth of a process after which its freed memory is given back. That takes a millisecond for each
8 MiB, in which nothing can be allocated."""
LOOK_EVERY_S = 5.0
LARGE_BLOCK_BYTES = 2**20
"""Size from which a block of memory has pages of its own."""
TOP_BYTES = 16 * 2**20
"""Free memory that is kept at the end of the heap, as much as after a block of 8 MiB."""
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@contextmanager
def loading() -> Iterator[None]:
    """Import modules within this block. Their objects stay, so no collection looks at them:
    collections took a third of the processor time of a server's imports."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def freeze() -> None:
    """Keep all present objects out of collections; call it once everything is loaded."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, MIDDLE, OLD)


class FreedMemory:
    """Gives freed memory back to the operating system once the process has grown."""

    def __init__(self, trim: Callable[[], object], resident: Callable[[], int]) -> None:
        """Begin with the present size; `trim` gives back, `resident` returns the size in bytes."""
        self._trim = trim
        self._resident = resident
        self._least_bytes = resident()
        """The least size since freed memory was given back."""
        self._looks = 0
        """Looks since then."""
        self._again_after = math.inf
        """Looks after which it is given back again."""

    def look(self) -> None:
        """Give freed memory back if the process has grown by GROWN_BYTES, and again later.

        A process that still uses all memory when it has grown frees it later, and shrinks by
        nothing then. So the pauses in which freed memory is kept are twice as long each time.
        """
        resident_bytes = self._resident()
        self._looks += 1
        if resident_bytes - self._least_bytes >= GROWN_BYTES:
            self._again_after = 1
        elif self._looks >= self._again_after:
            self._again_after *= 2
        else:
            self._least_bytes = min(self._least_bytes, resident_bytes)
            return
        self._trim()
        self._looks = 0
        self._least_bytes = self._resident()


def resident_bytes() -> int:
    """Return the memory of this process that is resident."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE_BYTES


def trim() -> None:
    """Give freed memory back. Raises AttributeError where the C library cannot."""
    ctypes.CDLL(None).malloc_trim(0)


def bound_blocks() -> None:
    """Keep glibc from moving its limits. Raises AttributeError where the C library is another."""
    library = ctypes.CDLL(None)
    library.mallopt(_M_MMAP_THRESHOLD, LARGE_BLOCK_BYTES)
    library.mallopt(_M_TRIM_THRESHOLD, TOP_BYTES)


def give_back_freed() -> None:
    """Start a thread that gives freed memory back, where the C library can do that."""
    with suppress(AttributeError, OSError):  # musl cannot; without /proc nothing is known
        trim()
        bound_blocks()
        freed = FreedMemory(trim, resident_bytes)
        threading.Thread(target=_give_back, args=(freed,), name="freed", daemon=True).start()


def _give_back(freed: FreedMemory) -> None:
    never = threading.Event()
    while not never.wait(LOOK_EVERY_S):
        freed.look()
