"""Virtual time: a heap of events, one PRNG per subsystem, and a digest of all that happened."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from hashlib import blake2b
from typing import Any

_TRACE_CHUNK = 4096
POLL = "poll"
"""Label of events in which a client looks whether there is something to do: not counted."""


class Scheduler:
    """Runs events in order of (time, order of scheduling). Times are µs since the run began."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.now = 0
        self.events = 0
        self._count = 0
        self._heap: list[tuple[int, int, str, Callable[..., None], tuple[Any, ...]]] = []
        self._trace = blake2b(digest_size=16)
        self._recent: list[object] = []

    def fork(self, name: str) -> random.Random:
        """Return the PRNG of one subsystem: drawing more in one changes nothing in another."""
        return random.Random(f"{self.seed}/{name}")

    def after(self, delay_us: int, label: str, call: Callable[..., None], *args: Any) -> None:
        """Call `call(*args)` after a delay; `label` goes into the trace."""
        assert delay_us >= 0
        self._count += 1
        heapq.heappush(self._heap, (self.now + delay_us, self._count, label, call, args))

    def run_until(self, end_us: int) -> None:
        heap, pop, recent = self._heap, heapq.heappop, self._recent
        while heap and heap[0][0] <= end_us:
            at, _, label, call, args = pop(heap)
            self.now = at
            if label is not POLL:
                self.events += 1
            recent.append(at)
            recent.append(label)
            if len(recent) >= _TRACE_CHUNK:
                self._flush_trace()
            call(*args)
        self.now = end_us

    def note(self, *facts: object) -> None:
        """Put facts into the trace that no event's label tells."""
        self._recent.extend(facts)

    def trace_digest(self) -> str:
        self._flush_trace()
        return self._trace.hexdigest()

    def _flush_trace(self) -> None:
        self._trace.update(repr(self._recent).encode())
        self._recent.clear()
