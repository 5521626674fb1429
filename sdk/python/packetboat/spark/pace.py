"""So many bytes a second and no more."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

Wait = Callable[[float], object]


def wait(seconds: float) -> None:
    """Of a thread that nobody else wants anything of."""
    threading.Event().wait(seconds)


class Pace:
    """Of one task. What was taken too fast is waited off after it, so the mean holds whatever the
    size of what comes at once; what was not taken while there was time is not made up for."""

    def __init__(
        self,
        bytes_per_s: float | None,
        clock: Callable[[], float] = time.monotonic,
        wait: Wait = wait,
    ) -> None:
        self._bytes_per_s = bytes_per_s
        self._clock = clock
        self._wait = wait
        self._even_s = 0.0
        """When what was taken so far is paid for."""

    def took(self, count_bytes: int) -> None:
        """Waits, if need be."""
        if self._bytes_per_s is None:
            return
        now_s = self._clock()
        self._even_s = max(self._even_s, now_s) + count_bytes / self._bytes_per_s
        if self._even_s > now_s:
            self._wait(self._even_s - now_s)
