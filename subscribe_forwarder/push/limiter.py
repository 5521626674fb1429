"""How many requests an endpoint is sent at once: found out by trying.

Pure; times are seconds of any one monotonic clock. The limit starts low. It is looked at once per
*window*, some requests that began after the last look:

    nothing against more       it doubles; from the first trouble on, half as much again, up to the
                               *ceiling*, a little below where there was trouble; there it tries
                               more only once in `PROBE_S`, in steps that double while all goes well
    slower than SLOWER_TIMES   and no more is answered a second than before the limit last grew: the
                               endpoint queues what it is sent. The limit is the ceiling, and goes
                               down by a tenth, not below `START` for this reason alone
    429, 503, a timeout        it halves at once, for one such answer of all that were on their way

What is "slower" is measured against a mean of few at a time, taken anew once in `MEASURE_S` with
the limit halved for one window: else the standard would follow the queue that it is to notice.

Below 1, the limit is a share of the time in which one request is on its way: an endpoint that takes
ten requests a second is found as well as one that takes ten at once.
"""

from __future__ import annotations

import enum

START = 4.0
LEAST = 1 / 65_536
MOST = 1_000.0
WINDOW_LEAST = 8
WINDOW_MOST = 100
WINDOW_OF_SHARES = 2
"""Below a limit of 1."""
SLOWER_TIMES = 2.0
SLOWER_BY_S = 0.005
"""And by so much: where all is fast, our own loop is what varies."""
PROBE_S = 2.0
MEASURE_S = 60.0
MAX_GAP_S = 10.0
PAYS_TIMES = 1.15
"""So much more is answered where a higher limit pays; also where our own machine is slow."""
_BUSY_FACTOR = 0.5
_BELOW_TROUBLE = 0.9
_FIRST_STEP = 0.1


class Load(enum.Enum):
    """What a request tells of how much the endpoint takes; NOTHING where it failed otherwise."""

    TAKEN = "taken"
    TOO_MUCH = "too_much"
    NOTHING = "nothing"


class Limiter:
    """Of one endpoint. Every `began` is followed by one `ended`."""

    def __init__(self, now_s: float) -> None:
        self.in_flight = self._peak = 0
        self._limit = START
        self._went_well = START
        self._ceiling: float | None = None
        self._step = _FIRST_STEP
        self._probe_s = now_s
        self._cut_s = float("-inf")
        self._standard_s: float | None = None
        self._measure_s = now_s
        self._measuring = False
        self._latency_s = 0.0
        self._rate_before: float | None = None
        """Answers a second when the limit last grew."""
        self._next_s = now_s
        self._open_window(now_s)

    @property
    def limit(self) -> float:
        """Requests at once; below 1, of the time with one."""
        return max(START, self._limit / 2) if self._measuring else self._limit

    def room(self, now_s: float) -> int:
        """How many requests may begin now."""
        if self.limit >= 1:
            return max(0, int(self.limit) - self.in_flight)
        return int(not self.in_flight and now_s >= self._next_s)

    def due_s(self, now_s: float) -> float | None:
        """When there is room without a request that ends; None: only then."""
        return max(now_s, self._next_s) if self.limit < 1 and not self.in_flight else None

    def began(self) -> None:
        self.in_flight += 1
        self._peak = max(self._peak, self.in_flight)

    def ended(self, began_s: float, load: Load, now_s: float) -> None:
        """Of a request that began then."""
        at_once = self.in_flight
        self.in_flight -= 1
        latency_s = max(0.0, now_s - began_s)
        if load is Load.TAKEN:
            self._taken(began_s, latency_s, now_s)
        elif load is Load.TOO_MUCH and began_s >= self._cut_s:
            self._cut(at_once, now_s)
        if self._limit < 1:
            self._latency_s = self._latency_s or latency_s
            gap_s = max(self._latency_s, 0.001) * (1 / self._limit - 1)
            self._next_s = now_s + min(MAX_GAP_S, gap_s)

    def restart(self, now_s: float) -> None:
        """It was away: carefully from the start, up to what went well before."""
        self._ceiling = max(self._went_well, START)
        self._limit = min(self._limit, START) if self._limit >= 1 else 1.0
        self._measuring = False
        self._cut_s = now_s
        self._next_s = now_s
        self._open_window(now_s)

    def _open_window(self, now_s: float) -> None:
        self._window_s = now_s
        self._count = 0
        self._sum_s = 0.0
        self._peak = self.in_flight

    def _taken(self, began_s: float, latency_s: float, now_s: float) -> None:
        if began_s < self._window_s:
            return
        self._count += 1
        self._sum_s += latency_s
        least = WINDOW_LEAST if self._limit >= 1 else WINDOW_OF_SHARES
        if self._count >= max(least, min(WINDOW_MOST, self.limit)):
            self._look(self._sum_s / self._count, now_s)
            self._open_window(now_s)

    def _look(self, mean_s: float, now_s: float) -> None:
        """A window is over."""
        self._latency_s = mean_s
        if self._measuring or self._standard_s is None or mean_s < self._standard_s:
            if self._measuring or self._standard_s is None:
                self._measure_s = now_s + MEASURE_S
            self._standard_s = mean_s
            if self._measuring:
                self._measuring = False
                return
        if self._peak < int(0.7 * int(self._limit) + 0.5):
            return  # the limit limits nothing
        self._went_well = self._limit
        rate = self._count / max(1e-6, now_s - self._window_s)
        pays = self._rate_before is None or rate > PAYS_TIMES * self._rate_before
        slower = mean_s > SLOWER_TIMES * self._standard_s + SLOWER_BY_S
        if slower and not pays and self._limit > START:
            self._ceiling = self._limit * _BELOW_TROUBLE
            self._limit = max(START, self._ceiling)
            self._step = _FIRST_STEP
            self._probe_s = now_s + PROBE_S
            if now_s >= self._measure_s:
                self._measuring = True
        elif now_s >= self._measure_s and self._limit > START:
            self._measuring = True
        else:
            self._rate_before = rate
            self._grow(now_s)

    def _grow(self, now_s: float) -> None:
        if self._ceiling is None:
            self._limit = min(MOST, 2 * self._limit)
        elif self._limit < self._ceiling:
            self._limit = min(self._ceiling, 1.5 * self._limit, MOST)
        elif now_s >= self._probe_s:
            more = self._limit * self._step
            self._limit = min(MOST, self._limit + (max(1.0, more) if self._limit >= 1 else more))
            self._ceiling = self._limit
            self._step = min(1.0, 2 * self._step)
            self._probe_s = now_s + PROBE_S

    def _cut(self, at_once: int, now_s: float) -> None:
        limit = self.limit
        trouble = min(limit, float(at_once)) if limit >= 1 else limit
        self._ceiling = max(LEAST, trouble * _BELOW_TROUBLE)
        self._limit = max(LEAST, _BUSY_FACTOR * trouble)
        self._measuring = False
        self._step = _FIRST_STEP
        self._probe_s = now_s + PROBE_S
        self._cut_s = now_s
        self._open_window(now_s)
