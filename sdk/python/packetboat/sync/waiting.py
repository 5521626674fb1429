"""Waiting, as the synchronous client does it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def pause(seconds: float) -> None:
    """Blocks the thread that asks; a signal's handler runs meanwhile."""
    threading.Event().wait(seconds)


def apart(work: Callable[P, T], *args: P.args, **more: P.kwargs) -> T:
    """Do work that blocks; the caller of a synchronous client blocks anyway."""
    return work(*args, **more)
