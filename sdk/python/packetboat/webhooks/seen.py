"""The messages that were taken already, so that none is handled twice: neither when an answer was
lost, nor when an eavesdropper sends a request again.

A forgotten message can be taken again. A request that is older than the receiver's tolerance is
refused anyway; so a memory for the ids of twice that time keeps replays out. One process has
`RecentIds`; several need a place that all of them see, with the same three methods.
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
        """Begin a message, once before it is handled: return `new` to the caller that shall
        handle it, `working` while another caller does, `done` once it was taken.
        """
        ...

    def done(self, message_ids: Sequence[str]) -> None:
        """Note that messages were taken."""

    def failed(self, message_ids: Sequence[str]) -> None:
        """Note that messages were not taken: they are new when they come again."""


class RecentIds:
    """The last `max_ids` message ids that were taken within `keep_s`, in memory.

    Beyond the limit the oldest is forgotten, but no message that is being handled.
    """

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
        """The time at which each message was taken, oldest first."""
        self._working: set[str] = set()

    def begin(self, message_id: str) -> State:
        """Begin a message as `SeenIds` says."""
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
        """Note that messages were taken; forget the oldest to make room."""
        with self._lock:
            now_s = self._clock()
            for message_id in message_ids:
                self._working.discard(message_id)
                self._done[message_id] = now_s
                self._done.move_to_end(message_id)
            while len(self._done) > self._max_ids:
                self._done.popitem(last=False)

    def failed(self, message_ids: Sequence[str]) -> None:
        """Note that messages were not taken: they are new when they come again."""
        with self._lock:
            self._working.difference_update(message_ids)
