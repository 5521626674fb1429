"""Decides by a circuit breaker whether an endpoint is worth a request.

Pure; times are seconds of any one monotonic clock.

    closed ──► open        `FAILURES` in a row, or `RATE` of the last requests failed: of the last
                           `OF_LAST`, or where more than `FEW` failed long before, of all of the
                           last `OF_MOST`
    open ──► half open     when the pause is over: one request at a time may try
    half open ──► open     a try failed; the pause grows by half, with jitter, up to `PAUSE_MOST_S`
    half open ──► closed   `TRIES` went well in a row

Where some requests fail anyway, more in a row are needed: so many that chance alone would give them
once in a million requests.

Unlike `edge.breaker`, which stands before our own Postgres and believes any answer, this one does
not believe requests that began before it opened: an overloaded endpoint still finishes some.
"""

from __future__ import annotations

import math
import random
from collections import deque

from edge.breaker import State

FAILURES = 5
OF_LAST = 20
OF_MOST = 200
OF_LATE = 50
FEW = 2
"""More failures among the last `OF_MOST` without the last `OF_LATE` say that some fail anyway."""
BY_CHANCE = 1e-6
RATE = 0.5
TRIES = 2
PAUSE_FIRST_S = 1.0
PAUSE_TIMES = 1.5
PAUSE_MOST_S = 60.0
JITTER = 0.3


class EndpointBreaker:
    """The breaker of one endpoint. Every `began` is followed by one `ended`."""

    def __init__(self, rng: random.Random | None = None) -> None:
        self.state = State.CLOSED
        self.reason = ""
        """The reason why it is open; empty where it is closed."""
        self._rng = rng or random.Random()
        self._failures = 0
        self._went_well = 0
        self._last: deque[bool] = deque(maxlen=OF_MOST)
        self._pause_s = 0.0
        self._try_s = 0.0
        self._turned_s = float("-inf")
        self._trying = 0

    def room(self, now_s: float) -> int | None:
        """Return how many requests may begin now; None sets no limit."""
        if self.state is State.CLOSED:
            return None
        if self.state is State.OPEN and now_s < self._try_s:
            return 0
        return int(not self._trying)

    def due_s(self, now_s: float) -> float | None:
        """Return when a try may begin without another that ends; None: only then, or any time."""
        return max(now_s, self._try_s) if self.state is State.OPEN else None

    def began(self, now_s: float) -> None:
        """Count a request; the first one after the pause half opens the breaker."""
        if self.state is State.OPEN:
            self.state = State.HALF_OPEN
            self._turned_s = now_s
            self._went_well = self._trying = 0
        if self.state is State.HALF_OPEN:
            self._trying += 1

    def ended(self, began_s: float, *, well: bool | None, now_s: float) -> bool:
        """Count a request that ended; return whether the breaker closed by that.

        `well`: None tells nothing.
        """
        if began_s < self._turned_s:
            return False
        if self.state is State.HALF_OPEN:
            self._trying -= 1
            return self._tried(well, now_s)
        if self.state is State.CLOSED and well is not None:
            self._note(well, now_s)
        return False

    def hasten(self, now_s: float) -> None:
        """Permit a try now, because there is news of the endpoint."""
        self._try_s = min(self._try_s, now_s)

    def reset(self, now_s: float) -> None:
        """Try the endpoint as if nothing had been."""
        self._close(now_s)

    def _tried(self, well: bool | None, now_s: float) -> bool:
        if well is False:
            self._open(f"a try failed; {self.reason.removeprefix('a try failed; ')}", now_s)
        elif well:
            self._went_well += 1
            if self._went_well >= TRIES:
                self._close(now_s)
                return True
        return False

    def _note(self, well: bool, now_s: float) -> None:
        """Note an outcome while closed; open the breaker after too many failures."""
        self._last.append(well)
        self._failures = 0 if well else self._failures + 1
        if well:
            return
        last = list(self._last)
        before = last[:-OF_LATE].count(False)
        if self._failures >= _in_a_row(before):
            self._open(f"{self._failures} requests in a row failed", now_s)
            return
        if before <= FEW:
            last = last[-OF_LAST:]
        failed, known = last.count(False), len(last)
        if known >= OF_LAST and failed >= RATE * known:
            self._open(f"{failed} of {known} requests failed", now_s)

    def _open(self, why: str, now_s: float) -> None:
        self._pause_s = min(PAUSE_MOST_S, max(PAUSE_FIRST_S, PAUSE_TIMES * self._pause_s))
        self._try_s = now_s + self._pause_s * (1 - JITTER * self._rng.random())
        self.state, self.reason = State.OPEN, why
        self._turned_s = now_s
        self._trying = 0

    def _close(self, now_s: float) -> None:
        self.state, self.reason = State.CLOSED, ""
        self._turned_s = now_s
        self._failures = 0
        self._pause_s = 0.0
        self._last.clear()


def _in_a_row(before: int) -> int:
    """Return how many failures in a row open it, by how many requests failed long before."""
    if not before:
        return FAILURES
    share = before / (OF_MOST - OF_LATE + 1)
    return max(FAILURES, math.ceil(math.log(BY_CHANCE) / math.log(share)))
