"""Decides whether a flush of a few acks waits some milliseconds for more of them.

Acks that come one after the other would each be a flush: a statement and a commit of Postgres. A
flush soon after the last one therefore waits, so that it carries the acks of `GATHER_S`. That costs
consumers nothing that go on while their acks are under way. A consumer that sends nothing before
its ack is answered would become slower, though, and few consumers like that would be much slower.

The number of acked messages tells which of them are there: a wait that keeps consumers from going
on makes it smaller. So of `TRIAL` periods, one goes without waits, and the others wait only as long
as they have about as many messages as that one. Where they do not, no flush waits for a while,
which gets longer each time.
"""

from __future__ import annotations

import time
from collections.abc import Callable

GATHER_S = 0.02
"""A flush waits at most until this long after the end of the one before."""
ENOUGH_MESSAGES = 32
"""A flush that acks this many does not wait."""
PERIOD_S = 0.25
TRIAL = 20
"""Periods, of which the first one is without waits."""
LEAST_FLUSHES = 10
"""Flushes in a period from which waits are tried: fewer are too far apart to be joined."""
KEPT = 0.75
"""Waits go on while the messages of a second are this part of those without waits, or more."""
FIRST_REST = 8
MOST_REST = 256
"""Periods without waits after they made consumers slower."""


class AckGathering:
    """Paces the flushes of acks of one flush loop, whose flushes never overlap."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._ended_s = self._period_s = -PERIOD_S
        self._messages = self._flushes = 0
        self._waits = False
        self._left = 0
        """Periods until the other way is tried."""
        self._per_second = 0.0
        """The messages of a second in the last period without waits."""
        self._rest = FIRST_REST

    def wait_s(self, messages: int) -> float:
        """Return the seconds that a flush waits for more acks, with those of `messages`."""
        if not self._waits or messages >= ENOUGH_MESSAGES:
            return 0.0
        return max(0.0, self._ended_s + GATHER_S - self._clock())

    def ended(self, messages: int) -> None:
        """Note the end of a flush with the acks of `messages`."""
        now_s = self._ended_s = self._clock()
        period_s = now_s - self._period_s
        if period_s >= PERIOD_S:
            if period_s >= 2 * PERIOD_S:
                self._waits, self._left = False, 1  # after a pause, all begins anew
            else:
                self._turn(self._messages / period_s)
            self._messages = self._flushes = 0
            self._period_s = now_s
        self._messages += messages
        self._flushes += 1

    def _turn(self, per_second: float) -> None:
        """End a period: go on as in the last one, or try the other way."""
        self._left -= 1
        if not self._waits:
            self._per_second = per_second
            if self._left <= 0 and self._flushes >= LEAST_FLUSHES:
                self._waits, self._left = True, TRIAL - 1
        elif per_second < KEPT * self._per_second:
            self._waits, self._left = False, self._rest
            self._rest = min(2 * self._rest, MOST_REST)
        elif self._left <= 0:
            self._waits, self._left = False, 1
            self._rest = FIRST_REST
