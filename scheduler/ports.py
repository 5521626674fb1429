"""The part of the store that the scheduler uses; tests put their own in place of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from appending.sender import Appender
from outbox import reading
from scheduler.backup_age import Counters
from store_nodes.client import (
    Location,
    QueueInfo,
    QueueOffsets,
    StagedEntry,
    StagedPage,
)
from store_nodes.queue_id import QueueId


class Watch(Protocol):
    """A stream of queue changes of one group, kept over reconnects and leader changes."""

    def add(self, queue: QueueId) -> None: ...
    def remove(self, queue: QueueId) -> None: ...
    def close(self) -> None: ...


class Clock(Protocol):
    """A group's log time."""

    def now_us(self) -> int: ...


class DueStore(Protocol):
    """The part of the store client that releasing staged messages uses; raises StoreError."""

    def clock(self, group: int) -> Clock: ...
    def watch(self, group: int, on_change: Callable[[Sequence[QueueOffsets]], None]) -> Watch: ...
    def appender(self, group: int, queue: QueueId) -> Appender: ...
    async def staged(
        self, group: int, queue: QueueId, after: int = -1, limit: int = 1000, *, timeout_s: float
    ) -> StagedPage: ...
    async def staged_changes(
        self, group: int, queue: QueueId, changes: int, *, timeout_s: float
    ) -> StagedPage: ...
    async def release(
        self, group: int, queue: QueueId, numbers: Sequence[int], *, timeout_s: float
    ) -> list[int | None]: ...
    async def discard(
        self, group: int, queue: QueueId, numbers: Sequence[int], *, timeout_s: float
    ) -> int: ...
    async def locate(
        self, group: int, queue: QueueId, stage_number: int, *, timeout_s: float
    ) -> Location: ...
    async def fetch_staged(
        self, group: int, queue: QueueId, stage_number: int, max_bytes: int, *, timeout_s: float
    ) -> list[StagedEntry]: ...


class TrimStore(Protocol):
    """The part of the store client that truncation uses; raises StoreError."""

    @property
    def groups(self) -> tuple[int, ...]: ...
    def clock(self, group: int) -> Clock: ...
    async def queues(self, group: int, *, timeout_s: float) -> list[QueueInfo]: ...
    async def truncate(
        self,
        group: int,
        queue: QueueId,
        upto: int,
        keep: Iterable[int] = (),
        *,
        timeout_s: float,
    ) -> int: ...
    async def offset_at(
        self, group: int, queue: QueueId, time_us: int, *, timeout_s: float
    ) -> int: ...
    async def offset_back(
        self, group: int, queue: QueueId, last_bytes: int, *, timeout_s: float
    ) -> int: ...
    async def delete(self, group: int, queue: QueueId, *, timeout_s: float) -> None: ...


class Store(DueStore, TrimStore, Counters, reading.Store, Protocol):
    """The part of `store_nodes.client.StoreClient` that the scheduler uses."""


class StoredLimits(Protocol):
    """The bytes that each tenant may store, over all of its topics."""

    @property
    def any(self) -> bool:
        """Whether some tenant has a limit."""
        ...

    def of(self, tenant_id: bytes) -> float:
        """Return a tenant's limit; 0 for none."""
        ...
