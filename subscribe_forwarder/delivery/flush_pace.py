"""Paces the flushes of acks: each begins at once, or some milliseconds after the last one's end.

Acks that come one after the other would each be a flush: a statement and a commit of Postgres. So
flushes wait for more acks where that costs consumers little, in two cases:

1. Many cursors change one after the other: a thousand consumers, say, that each ack now and then.
   A flush then waits until a share of all cursors that acks have changed lately has come together
   (`FlushPace`). An ack after a pause does not wait, nor do the acks of a few cursors, however fast
   they come.
2. A few acks are followed by others, whether or not they are answered (`AckGathering`). A consumer
   that sends nothing before its ack is answered would become slower, and few consumers like that
   would be much slower. The number of acked messages tells which consumers are there: a wait that
   keeps them from going on makes it smaller. So of `TRIAL` periods, one goes without waits, and
   the others wait only as long as they have about as many messages as that one. Where they do not,
   no flush waits for a while, which gets longer each time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

from metadata.types import CursorKey

MAX_WAIT_S = 0.02
"""A flush waits at most until this long after the end of the one before."""
PERIOD_S = 0.25
"""The length of a period. Cursors of this one and of the last one were flushed lately."""
SHARE = 16
"""A flush begins when this part of the cursors that were flushed lately has changed: one in
`SHARE`."""
ENOUGH_MESSAGES = 32
"""A flush that acks this many does not wait."""
TRIAL = 20
"""Periods, of which the first one is without waits."""
LEAST_FLUSHES = 10
"""Flushes in a period from which waits are tried: fewer are too far apart to be joined."""
KEPT = 0.75
"""Waits go on while the messages of a second are this part of those without waits, or more."""
FIRST_REST = 8
MOST_REST = 256
"""Periods without waits after they made consumers slower."""


class FlushPace:
    """Paces one flush loop, whose flushes never overlap, by the cursors that acks change."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._before: set[CursorKey] = set()
        self._lately: set[CursorKey] = set()
        self._period_s = 0.0
        self._ended_s = -MAX_WAIT_S

    def ended(self, cursors: Collection[CursorKey]) -> None:
        """Note the end of a flush, and the cursors in it that callers waited for."""
        now_s = self._ended_s = self._clock()
        if now_s - self._period_s >= PERIOD_S:
            over = now_s - self._period_s >= 2 * PERIOD_S
            self._before = set() if over else self._lately
            self._lately = set()
            self._period_s = now_s
        self._lately.update(cursors)

    def wait_s(self, cursors: int) -> float:
        """Return the seconds that a flush waits for more, with callers for `cursors` cursors."""
        if SHARE * cursors >= max(len(self._before), len(self._lately)):
            return 0.0
        return max(0.0, self._ended_s + MAX_WAIT_S - self._clock())


class AckGathering:
    """Paces one flush loop, whose flushes never overlap, by the messages that are acked."""

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
        return max(0.0, self._ended_s + MAX_WAIT_S - self._clock())

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
