"""The objects that the cyclic garbage collector looks at in a process that serves.

Modules, schemas and tables are most of the heap, and stay as long as the process: a collection of
everything takes a tenth of a second, in which nothing is answered, and a busy server has many. So
once a process serves, what is there is set aside. Objects that requests make go by their reference
counts; the collector finds the few cycles among them, and looks at few objects at a time.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

YOUNG = 2_000
"""Objects made and not gone, after which a collection looks at the youngest."""
MIDDLE = 10
"""Collections of the youngest before one that looks at their survivors too. It looks at 22,000
objects at most, which takes less than half of the time that a callback may take."""
OLD = 200
"""Collections of the survivors before one that looks at everything: four million objects."""


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


def settle() -> None:
    """Call it once what the process needs is loaded."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, MIDDLE, OLD)
