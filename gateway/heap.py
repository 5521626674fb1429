"""What the cyclic garbage collector looks at in a process that serves.

Modules, schemas and tables are most of the heap, and stay as long as the process: a collection of
everything takes a tenth of a second, in which nothing is answered, and a busy server has many. So
once a process serves, what is there is set aside. What requests make goes by reference counts; the
collector finds the few cycles among it, seldom and in little time.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

YOUNG = 10_000
"""Objects made and not gone, after which the youngest are looked at."""
MIDDLE = 20
OLD = 20
"""So many collections of the younger ones come before one of these."""


@contextmanager
def loading() -> Iterator[None]:
    """Modules are imported within. What they make stays, so it is not looked at: collections took
    a third of the processor time of a server's imports."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def settle() -> None:
    """Call it once what the process needs is loaded."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, MIDDLE, OLD)
