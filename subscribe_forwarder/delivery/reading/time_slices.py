"""Turns on the event loop: reads of old messages come after publishing and deliveries.

A replay works in turns of some milliseconds, and all other ready work comes first between any two
turns. That alone would delay other work by a turn now and then. So replays also rest: the longer
the more of the loop others take, and much longer while the loop is late. Then they have a twentieth
of the loop, which is the part that admission leaves to work without waiting messages
(gateway/admission). Alone, they do not rest.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

TURN_S = 0.002
"""Seconds after which a turn ends; a part that was begun is finished."""
OWN = 0.25
"""The share of the loop's time that the input and output of replays may take."""
SHARED = 0.75
"""The share of the loop's time from which on replays rest as long as they work."""
LATE_S = 0.02
"""The lateness of a loop whose turns are as long as ours."""
MOST_RESTS = 19.0
"""The longest rest, as a multiple of a turn's length."""
_RESTS_PER_LATE = 4.0
_SHORTEST_S = 0.001
"""Loops count time in milliseconds."""
_LONGEST_S = 0.1
_SMOOTHING = 0.2
_sleep = asyncio.sleep


class TurnPause:
    """The length of the rest after a turn. Pure: it is told the durations."""

    __slots__ = ("others",)

    def __init__(self) -> None:
        self.others = 0.0
        """The part of the loop's time that others take when it is offered; of the last turns."""

    def rest_s(self, turn_s: float, others_s: float, late_s: float) -> float:
        """After a turn of `turn_s` others took `others_s` until we were called again; timers are
        called `late_s` late."""
        part = others_s / (others_s + turn_s) if others_s > 0 else 0.0
        self.others += _SMOOTHING * (part - self.others)
        shared = min(1.0, max(0.0, (self.others - OWN) / (SHARED - OWN)))
        late = max(0.0, late_s / LATE_S - 1.0)
        rest_s = turn_s * min(MOST_RESTS, shared + _RESTS_PER_LATE * late)
        return 0.0 if rest_s < _SHORTEST_S else min(_LONGEST_S, rest_s)


class TimeSlices:
    """The turns of all replays of a process, one after the other.

    Nothing is awaited within a turn.
    """

    def __init__(
        self,
        late_s: Callable[[], float] = lambda: 0.0,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """Create the turns; `late_s` returns how late the loop calls timers now."""
        self._late_s = late_s
        self._clock = clock
        self._courtesy = TurnPause()
        self._next = asyncio.Lock()
        self._began_s = 0.0
        self._took_s = 0.0

    @property
    def over(self) -> bool:
        """This turn is long enough."""
        return self._clock() - self._began_s >= TURN_S

    async def begin(self) -> None:
        """Return at the start of our turn, which lasts up to `end`."""
        async with self._next:
            left_s = self._clock()
            await asyncio.sleep(0)
            others_s = self._clock() - left_s
            rest_s = self._courtesy.rest_s(self._took_s, others_s, self._late_s())
            if rest_s:
                await _sleep(rest_s)
        self._began_s = self._clock()

    def end(self) -> None:
        self._took_s = self._clock() - self._began_s

    async def renew(self) -> None:
        self.end()
        await self.begin()
