"""Which messages were taken already, so that none is handled twice: not when an answer was lost,
nor when somebody sends a request again that they have overheard.

What is forgotten can be taken again. A request that is older than the receiver's tolerance is
refused anyway; so replays are kept out by as many ids as come within twice that time. One process
has `RecentIds`; several need a place that all of them see, with the same three methods.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Literal, Protocol

State = Literal["new", "working", "done"]


class SeenIds(Protocol):
    """Called by many threads; may block."""

    def begin(self, message_id: str) -> State:
        """Said once for each message before it is handled: `new` for whoever is to handle it now,
        `working` while somebody else does, `done` once it was taken."""
        ...

    def done(self, message_ids: Sequence[str]) -> None:
        """They were taken."""

    def failed(self, message_ids: Sequence[str]) -> None:
        """They were not: new when they come again."""


class RecentIds:
    """The last `max_ids` that were taken within `keep_s`, in memory. Where there are more, the
    oldest is forgotten; what is worked on is not."""

    def __init__(
        self,
        max_ids: int = 100_000,
        keep_s: float = 3_600.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._max_ids = max_ids
        self._keep_s = keep_s
        self._clock = clock
        self._lock = threading.Lock()
        self._done: OrderedDict[str, float] = OrderedDict()
        """When each was taken, oldest first."""
        self._working: set[str] = set()

    def begin(self, message_id: str) -> State:
        """As `SeenIds` says."""
        with self._lock:
            if message_id in self._working:
                return "working"
            if (at_s := self._done.get(message_id)) is not None:
                if self._clock() - at_s < self._keep_s:
                    return "done"
                del self._done[message_id]
            self._working.add(message_id)
            return "new"

    def done(self, message_ids: Sequence[str]) -> None:
        """They were taken; makes room by forgetting the oldest."""
        with self._lock:
            now_s = self._clock()
            for message_id in message_ids:
                self._working.discard(message_id)
                self._done[message_id] = now_s
                self._done.move_to_end(message_id)
            while len(self._done) > self._max_ids:
                self._done.popitem(last=False)

    def failed(self, message_ids: Sequence[str]) -> None:
        """They were not: new when they come again."""
        with self._lock:
            self._working.difference_update(message_ids)
