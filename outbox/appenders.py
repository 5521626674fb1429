"""One session per queue, not per message: appenders are kept, the least recently used leaves."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from outbox.routing import Target
from store_nodes.queue_id import QueueId

MAX_APPENDERS = 1000


class Idling(Protocol):
    """Something that may be let go while nothing of it is under way."""

    @property
    def idle(self) -> bool: ...


A = TypeVar("A", bound=Idling)


class Appenders(Generic[A]):
    """By queue."""

    def __init__(self, make: Callable[[int, QueueId], A]) -> None:
        self._make = make
        self._kept: OrderedDict[Target, A] = OrderedDict()

    def of(self, target: Target) -> A:
        """The one of that queue."""
        appender = self._kept.pop(target, None)
        if appender is None:
            appender = self._make(*target)
        self._kept[target] = appender
        if len(self._kept) > MAX_APPENDERS:
            oldest = next(iter(self._kept))
            if self._kept[oldest].idle:
                del self._kept[oldest]
            else:
                self._kept.move_to_end(oldest)
        return appender

    def forget(self, target: Target) -> None:
        """The queue was sealed."""
        self._kept.pop(target, None)
