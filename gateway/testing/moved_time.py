"""The clocks of a process, moved ahead, for a process of its own that serves tests only.

It is done before anything else is imported: code that takes `time.time` as a default takes ours.
`time.perf_counter`, which measures how long something takes, stays as it is.
"""

from __future__ import annotations

import asyncio
import ctypes
import datetime
import gc
import time
from collections.abc import Callable
from typing import Any

from gateway.testing.shared_clock import SharedClock

TICK_S = 0.02
"""Seconds until a waiting loop sees that its time is asked to move."""
PATIENCE_S = 2.0
"""Seconds to wait for a moment without a running statement."""
_STATEMENT = "_bounded"
"""The coroutine of `metadata.database` that every operation of Postgres is."""


def move_wall_clock(shared: SharedClock, node: int | None = None) -> None:
    """Move the time of day: `time.time`, and `now` of dates.

    A store node, which looks at it with each of its ticks, says so.
    """
    wall_s, wall_ns = time.time, time.time_ns

    def time_ns() -> int:
        if node is not None:
            shared.node_looked(node)
        return wall_ns() + shared.taken_us * 1000

    time.time = lambda: wall_s() + shared.taken_us / 1e6
    time.time_ns = time_ns
    _replace(datetime.datetime, "now", _now)
    _replace(datetime.datetime, "utcnow", lambda cls: _now(cls, datetime.UTC).replace(tzinfo=None))
    _replace(datetime.date, "today", lambda cls: cls.fromtimestamp(time.time()))


def move_monotonic_clock(shared: SharedClock) -> None:
    """Move the clock of durations, and with it the timers of loops made from now on."""
    monotonic_s, monotonic_ns = time.monotonic, time.monotonic_ns
    time.monotonic = lambda: monotonic_s() + shared.taken_us / 1e6
    time.monotonic_ns = lambda: monotonic_ns() + shared.taken_us * 1000


class MovedLoop(asyncio.SelectorEventLoop):
    """A loop whose timers are due by the moved clock; it also takes a new offset over."""

    def __init__(self, shared: SharedClock, leading: Callable[[], bool]) -> None:
        super().__init__()
        self._shared = shared
        self._scheduler_leads = leading
        self._asked_since_s: float | None = None
        self.call_soon(self._tick)

    def _tick(self) -> None:
        shared = self._shared
        shared.say_leading(self._scheduler_leads())
        if shared.asked_us != shared.taken_us:
            now_s = time.perf_counter()
            since_s = self._asked_since_s = self._asked_since_s or now_s
            if not self._statements() or now_s - since_s > PATIENCE_S:
                shared.take(shared.asked_us)
                self._asked_since_s = None
        self.call_later(TICK_S, self._tick)

    def _statements(self) -> bool:
        """Return whether a statement runs in Postgres: a time-out would end it."""
        coroutines = [task.get_coro() for task in asyncio.all_tasks(self)]
        return any(getattr(one, "__qualname__", "") == _STATEMENT for one in coroutines)


def _now(cls: Any, tz: datetime.tzinfo | None = None) -> Any:
    return cls.fromtimestamp(time.time(), tz)


def _replace(kind: type, name: str, method: Callable[..., Any]) -> None:
    """Replace a class method of a type that is made in C, for all modules that hold the type.

    The method goes into the type's own dictionary. A subclass would be another type to code that
    compares types.
    """
    members = gc.get_referents(kind.__dict__)[0]
    members[name] = classmethod(method)
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(kind))
