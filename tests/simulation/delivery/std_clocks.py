"""The clocks of the standard library, replaced before anything of the product is imported.

Code that takes `time.monotonic` as the default of a parameter keeps the function of its import. So
it is a function that asks the module again with each call: within a simulated process a world has
put its own clock there (`tests.simulation.kernel.stdlib`), and elsewhere it is the real one.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable
from typing import Any

from gateway.testing.moved_time import _now, _replace

_NAMES = (
    "time",
    "time_ns",
    "monotonic",
    "monotonic_ns",
    "perf_counter",
    "perf_counter_ns",
    "process_time",
)


def install() -> None:
    """Install them, once in a process that does nothing else."""
    for name in _NAMES:
        setattr(time, name, _asked_again(name, getattr(time, name)))
    _replace(datetime.datetime, "now", _now)
    _replace(datetime.datetime, "utcnow", lambda cls: _now(cls, datetime.UTC).replace(tzinfo=None))
    _replace(datetime.date, "today", lambda cls: cls.fromtimestamp(time.time()))


def _asked_again(name: str, real: Callable[[], Any]) -> Callable[[], Any]:
    asked = False

    def ask() -> Any:
        nonlocal asked
        if asked:
            return real()  # the module's is this one, or has come back to it
        asked = True
        try:
            return vars(time)[name]()
        finally:
            asked = False

    return ask
