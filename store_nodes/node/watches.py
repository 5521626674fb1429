"""Tells clients of queue changes in the groups that they watch.

Changes within one event-loop iteration are told once, with the latest state.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from store_nodes.wire import QueueOffsets

WatchSink = Callable[[Sequence[QueueOffsets]], None]
"""Takes changed queues, each with its latest state; it never blocks and never fails.

States that a slow client has not read yet are reduced to the latest per queue, so it may be called
at any time.
"""
OffsetsOf = Callable[[int, bytes], QueueOffsets | None]
"""Returns the state of a queue by (group, queue), None if it does not exist (yet)."""


class Watch:
    """One open watch; soon after a queue is added, its `WatchSink` gets the present state."""

    def __init__(self, watches: Watches, group: int, sink: WatchSink) -> None:
        self._watches = watches
        self.group = group
        self.sink = sink
        self.queues: dict[bytes, None] = {}

    def add(self, queue: bytes) -> None:
        """Watch one more queue; one that does not exist (yet) is reported once it does."""
        self.queues[queue] = None
        self._watches.subscribe(self, queue)

    def remove(self, queue: bytes) -> None:
        if self.queues.pop(queue, self) is not self:
            self._watches.unsubscribe(self, queue)

    def close(self) -> None:
        """End the watch; its `WatchSink` is not called again."""
        for queue in list(self.queues):
            self.remove(queue)


class Watches:
    """Keeps every watch of a node, by queue."""

    def __init__(self, offsets_of: OffsetsOf) -> None:
        self._offsets_of = offsets_of
        self._by_queue: dict[tuple[int, bytes], dict[Watch, None]] = {}
        self._dirty: dict[Watch, dict[bytes, None]] = {}

    def open(self, group: int, sink: WatchSink) -> Watch:
        return Watch(self, group, sink)

    def subscribe(self, watch: Watch, queue: bytes) -> None:
        self._by_queue.setdefault((watch.group, queue), {})[watch] = None
        self._mark(watch, queue)

    def unsubscribe(self, watch: Watch, queue: bytes) -> None:
        watching = self._by_queue.get((watch.group, queue), {})
        watching.pop(watch, None)
        if not watching:
            self._by_queue.pop((watch.group, queue), None)

    def changed(self, group: int, queues: Sequence[bytes]) -> None:
        """Tell every watch of changed queues, at the end of this turn of the loop."""
        for queue in queues:
            for watch in self._by_queue.get((group, queue), ()):
                self._mark(watch, queue)

    def _mark(self, watch: Watch, queue: bytes) -> None:
        """Note that a queue has to be reported to a watch."""
        if not self._dirty:
            asyncio.get_running_loop().call_soon(self._tell)
        self._dirty.setdefault(watch, {})[queue] = None

    def _tell(self) -> None:
        """Send the latest states of the changed queues to their watches."""
        dirty, self._dirty = self._dirty, {}
        for watch, queues in dirty.items():
            states = [
                state
                for queue in queues
                if queue in watch.queues
                and (state := self._offsets_of(watch.group, queue)) is not None
            ]
            if states:
                watch.sink(states)
