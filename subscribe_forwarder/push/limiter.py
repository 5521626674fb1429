"""Finds the number of requests that an endpoint takes at once, by trying.

Pure; times are seconds of any one monotonic clock. The limit starts low. It is looked at once per
*window*, some requests that began after the last look:

    nothing against more       it doubles; from the first trouble on, half as much again, up to the
                               *ceiling*, a little below where there was trouble; there it tries
                               more only once in `PROBE_S`, in steps that double while all goes well
    slower than SLOWER_TIMES   and no more is answered a second than before the limit last grew: the
                               endpoint queues what it is sent. The limit is the ceiling, and goes
                               down by a tenth, not below `START` for this reason alone
    429, 503, a timeout        it halves at once, for one such answer of all that were on their way;
                               where a share of the requests is refused however few are sent, only
                               once many more are

An overloaded endpoint refuses nothing while it is sent little; one with a defect refuses the same
share always. The limiter tells them apart by the *calm* answers, those that come while the limit is
well below where there was trouble. The share of these that is refused is the *background*. It is
believed from `SURE` refusals on (more after an error), and is no reason to send less: from then on
the refusals above it are added up, less `RISE_LEAST` of all answers, and the limit halves when they
are `EXCESS_MOST`. A share over `BACKGROUND_MOST` is always taken for overload.

"Slower" is measured against a mean of few at a time, taken anew once in `MEASURE_S` with
the limit halved for one window: else the standard would follow the queue that it is to notice.

Below 1, the limit is a share of the time in which one request is on its way: an endpoint that takes
ten requests a second is found as well as one that takes ten at once.
"""

from __future__ import annotations

import enum
from collections import deque

START = 4.0
LEAST = 1 / 65_536
MOST = 1_000.0
WINDOW_LEAST = 8
WINDOW_MOST = 100
WINDOW_OF_SHARES = 2
"""The size of a window below a limit of 1."""
SLOWER_TIMES = 2.0
SLOWER_BY_S = 0.005
"""And by so much: where all is fast, our own loop is what varies."""
PROBE_S = 2.0
MEASURE_S = 60.0
MAX_GAP_S = 10.0
CALM_SHARE = 0.75
"""Answers are calm while the limit is at most this share of the highest recent ceiling."""
CEILINGS = 4
"""The number of recent ceilings.

Those of an overloaded endpoint are close to each other; those of one that refuses whatever it is
sent fall with each refusal.
"""
CALM_MEMORY = 10_000.0
REFUSED_MEMORY = 60.0
"""Calm answers, and refusals of these, that are remembered; beyond either, both count half."""
SURE = 3
JUDGED = 1000
DOUBT_TIMES = 4
RECENT = 40
"""A background was none if, within `JUDGED` answers and up to `DOUBT_TIMES` the limit that it was
found at, much of the last `RECENT` answers is refused. The next one is believed from `DOUBT_TIMES`
as many refusals on."""
BACKGROUND_MOST = 0.4
RISE_LEAST = 0.1
"""A rise of the refused share that is overload, where the background is low; else half of it."""
EXCESS_MOST = 10.0
BLAMED_TIMES = 1.25
"""The last cut was wrong if the background turns out to be higher than believed by so much."""
PAYS_TIMES = 1.15
"""So much more is answered where a higher limit pays; also where our own machine is slow."""
_BUSY_FACTOR = 0.5
_BELOW_TROUBLE = 0.9
_FIRST_STEP = 0.1


class Load(enum.Enum):
    """The load that a request shows at the endpoint; NOTHING where it failed otherwise."""

    TAKEN = "taken"
    TOO_MUCH = "too_much"
    NOTHING = "nothing"


class Limiter:
    """Limits the requests to one endpoint: every `began` is followed by one `ended`."""

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
        self._ceilings: deque[float] = deque(maxlen=CEILINGS)
        self._calm = self._calm_refused = 0.0
        self._sure = SURE
        self._since_lift: int | None = None
        """Answers, where the background that was found last is still judged."""
        self._lifted_at = START
        self._recent: deque[bool] = deque(maxlen=RECENT)
        self._blamed = 0.0
        """The background at the last cut."""
        self._excess = 0.0
        """Refusals above the background."""
        self._next_s = now_s
        self._open_window(now_s)

    @property
    def background(self) -> float:
        """The share of requests that the endpoint refuses however few are sent."""
        if self._calm_refused < self._sure:
            return 0.0
        share = self._calm_refused / self._calm
        return share if share <= BACKGROUND_MOST else 0.0

    @property
    def limit(self) -> float:
        """The number of requests at once; below 1, the share of the time with one."""
        return max(START, self._limit / 2) if self._measuring else self._limit

    def room(self, now_s: float) -> int:
        """Return how many requests may begin now."""
        limit = self.limit
        if limit >= 1:
            return max(0, int(limit) - self.in_flight)
        return int(not self.in_flight and now_s >= self._next_s)

    def due_s(self, now_s: float) -> float | None:
        """Return when there is room without a request that ends; None: only then."""
        return max(now_s, self._next_s) if self.limit < 1 and not self.in_flight else None

    def began(self) -> None:
        """Count a request that leaves."""
        self.in_flight += 1
        self._peak = max(self._peak, self.in_flight)

    def ended(self, began_s: float, load: Load, now_s: float) -> None:
        """Count a request that ended, and raise or lower the limit by its outcome."""
        at_once = self.in_flight
        self.in_flight -= 1
        latency_s = max(0.0, now_s - began_s)
        if load is Load.TAKEN:
            self._overloads(refused=False)
            self._taken(began_s, latency_s, now_s)
        elif load is Load.TOO_MUCH and began_s >= self._cut_s and self._overloads(refused=True):
            self._cut(at_once, now_s)
        if self._limit < 1:
            self._latency_s = self._latency_s or latency_s
            gap_s = max(self._latency_s, 0.001) * (1 / self._limit - 1)
            self._next_s = now_s + min(MAX_GAP_S, gap_s)

    def restart(self, now_s: float) -> None:
        """Restart after the endpoint was away: carefully from the start, up to what went
        well before.
        """
        self._ceiling = max(self._went_well, START)
        self._limit = min(self._limit, START) if self._limit >= 1 else 1.0
        self._measuring = False
        self._cut_s = now_s
        self._next_s = now_s
        self._open_window(now_s)

    def _overloads(self, *, refused: bool) -> bool:
        """Count an answer; return whether the refusals so far show an overload."""
        self._recent.append(refused)
        if self._since_lift is not None:
            self._since_lift += 1
            if self._since_lift > JUDGED:
                self._sure, self._since_lift = SURE, None
        known = self.background
        if self.limit <= CALM_SHARE * max(self._ceilings, default=0.0):
            self._count_calm(refused)
            if self.background > BLAMED_TIMES * self._blamed:  # it was cut for what is no overload
                self._blamed = self.background
                self._since_lift = 0
                self._ceiling = None
                self._excess = 0.0
                self._ceilings.clear()
                self._limit = self._lifted_at = max(START, self._limit)
                return False
        if not known:
            return refused
        borne = known + max(RISE_LEAST, known / 2)
        self._excess = max(0.0, self._excess + refused - borne)
        return self._excess >= EXCESS_MOST

    def _count_calm(self, refused: bool) -> None:
        if self._calm >= CALM_MEMORY or self._calm_refused >= REFUSED_MEMORY:
            self._calm /= 2
            self._calm_refused /= 2
        if self._calm_refused > max(self._sure, BACKGROUND_MOST * self._calm):
            self._calm = self._calm_refused = 0.0  # it was overloaded still
        self._calm += 1
        self._calm_refused += refused

    def _open_window(self, now_s: float) -> None:
        self._window_s = now_s
        self._count = 0
        self._sum_s = 0.0
        self._peak = self.in_flight

    def _taken(self, began_s: float, latency_s: float, now_s: float) -> None:
        """Count an accepted request; at the end of a window, decide on the limit."""
        if began_s < self._window_s:
            return
        self._count += 1
        self._sum_s += latency_s
        least = WINDOW_LEAST if self._limit >= 1 else WINDOW_OF_SHARES
        if self._count >= max(least, min(WINDOW_MOST, self.limit)):
            self._look(self._sum_s / self._count, now_s)
            self._open_window(now_s)

    def _look(self, mean_s: float, now_s: float) -> None:
        """Judge the window that is over."""
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
        self._excess = 0.0
        much = self._recent.count(True) > BACKGROUND_MOST * len(self._recent)
        if self._since_lift is not None and much and limit <= DOUBT_TIMES * self._lifted_at:
            self._sure, self._since_lift = DOUBT_TIMES * self._sure, None
            self._calm = self._calm_refused = 0.0
        self._blamed = self.background
        self._ceiling = max(LEAST, trouble * _BELOW_TROUBLE)
        self._ceilings.append(self._ceiling)
        self._limit = max(LEAST, _BUSY_FACTOR * trouble)
        self._measuring = False
        self._step = _FIRST_STEP
        self._probe_s = now_s + PROBE_S
        self._cut_s = now_s
        self._open_window(now_s)
