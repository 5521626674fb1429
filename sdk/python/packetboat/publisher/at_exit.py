"""Before the interpreter ends, publishers send what they have, for a bounded time."""

from __future__ import annotations

import atexit
import sys
from typing import Protocol
from weakref import WeakSet


class Finishing(Protocol):
    """Has messages that should not be lost."""

    def finish(self) -> None:
        """Raises nothing: what could not be published is logged."""


_watched: WeakSet[Finishing] = WeakSet()


def watch(thing: Finishing) -> None:
    """Finish the thing at the end of the interpreter."""
    _watched.add(thing)


def watch_child() -> None:
    """Children that multiprocessing forks end without the end of an interpreter, but in a way of
    their own. Called in the process itself."""
    multiprocessing = sys.modules.get("multiprocessing")
    if multiprocessing is not None and multiprocessing.parent_process() is not None:
        from multiprocessing.util import Finalize

        Finalize(None, _finish_all, exitpriority=100)


def _finish_all() -> None:
    for thing in list(_watched):
        thing.finish()


atexit.register(_finish_all)
