"""Tasks that this worker has leased and not yet settled."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator

from packetboat.models.jobs import ClaimedTask


class HeldTask:
    """One lease. Times are of the loop's clock."""

    __slots__ = ("ended", "extended_s", "lost", "on_gone", "over", "settling", "task")

    def __init__(
        self, task: ClaimedTask, now_s: float, on_gone: Callable[[HeldTask], None]
    ) -> None:
        self.task: ClaimedTask = task
        self.extended_s: float = now_s
        """The time at which its lease was last known to begin anew."""
        self.on_gone: Callable[[HeldTask], None] = on_gone
        """Called once it is settled, or belongs to another worker."""
        self.settling: bool = False
        self.lost: bool = False
        """The server has no such lease any more: there is nothing to settle."""
        self.ended: threading.Event = threading.Event()
        """Set once the result of the handler is not wanted; the handler's thread reads it."""
        self.over: asyncio.Event = asyncio.Event()
        """Set together with `ended`, for coroutines that wait on the loop."""

    def end(self) -> None:
        self.ended.set()
        self.over.set()

    def lose(self) -> None:
        self.lost = True
        self.end()


class HeldTasks:
    """The held tasks of one worker, over all its pools, by lease."""

    def __init__(self) -> None:
        self._held: dict[str, HeldTask] = {}

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[HeldTask]:
        return iter(tuple(self._held.values()))

    def add(self, held: HeldTask) -> None:
        self._held[held.task.lease_id] = held

    def find(self, lease_id: str) -> HeldTask | None:
        return self._held.get(lease_id)

    def discard(self, held: HeldTask) -> None:
        if self._held.pop(held.task.lease_id, None) is not None:
            held.on_gone(held)
