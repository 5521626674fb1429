"""What the publish forwarder needs of the parts below it: the seam its tests stand on."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

from metadata.types import Topic
from store_nodes.client.appender import Receipt
from store_nodes.commands import StageExtras
from store_nodes.queue_id import QueueId
from store_nodes.wire import Durability


class Appender(Protocol):
    """Ordered appends to one queue under a session, retried by sequence over leader changes."""

    def append_nowait(
        self,
        batch: bytes,
        count: int,
        *,
        durability: Durability,
        timeout_s: float,
        dedup: bytes,
        dedup_window_s: int,
    ) -> asyncio.Future[Receipt]:
        """Fails with a NotDone or OutcomeUnknown of store_nodes.errors; may raise one at once."""
        ...

    def stage_nowait(
        self,
        batch: bytes,
        count: int,
        extras: StageExtras,
        *,
        durability: Durability,
        timeout_s: float,
        dedup: bytes,
        dedup_window_s: int,
    ) -> asyncio.Future[Receipt]:
        """The same for messages that are released later; the receipt has a stage number."""
        ...


class Store(Protocol):
    """The part of `store_nodes.client.StoreClient` that publishing uses."""

    def has_leader(self, group: int) -> bool: ...
    def appender(self, group: int, queue: QueueId) -> Appender: ...


class Entry(Protocol):
    """One whole stored batch; `indices` None for all of its messages."""

    @property
    def base_offset(self) -> int: ...
    @property
    def log_time_us(self) -> int: ...
    @property
    def stage(self) -> int | None: ...
    @property
    def indices(self) -> tuple[int, ...] | None: ...
    @property
    def batch(self) -> bytes | memoryview: ...


class Fetched(Protocol):
    """What a replica has from an offset on."""

    @property
    def entries(self) -> Sequence[Entry]: ...


class StagedEntry(Protocol):
    """One whole staged batch."""

    @property
    def base_stage(self) -> int: ...
    @property
    def messages(self) -> int: ...
    @property
    def log_time_us(self) -> int: ...
    @property
    def batch(self) -> bytes | memoryview: ...


class StagedInfo(Protocol):
    """A message that waits for its release."""

    @property
    def stage_number(self) -> int: ...
    @property
    def due_us(self) -> int | None: ...
    @property
    def log_time_us(self) -> int: ...


class StagedPage(Protocol):
    @property
    def staged(self) -> Sequence[StagedInfo]: ...


class Location(Protocol):
    """What became of a staged message: "staged", "offset" (with it), "discarded", "truncated"."""

    @property
    def state(self) -> str: ...
    @property
    def offset(self) -> int | None: ...


class Offsets(Protocol):
    """Where a queue starts and ends."""

    @property
    def first(self) -> int: ...
    @property
    def end(self) -> int: ...
    @property
    def stage_end(self) -> int: ...


class MessageStore(Protocol):
    """The part of `store_nodes.client.StoreClient` that looking at single messages uses; raises
    StoreError."""

    async def fetch(
        self,
        group: int,
        queue: QueueId,
        offset: int,
        max_bytes: int,
        *,
        min_end: int | None = None,
    ) -> Fetched: ...
    async def fetch_staged(
        self, group: int, queue: QueueId, stage_number: int, max_bytes: int
    ) -> Sequence[StagedEntry]: ...
    async def offsets(self, group: int, queue: QueueId) -> Offsets: ...
    async def staged(self, group: int, queue: QueueId, after: int, limit: int) -> StagedPage: ...
    async def locate(self, group: int, queue: QueueId, stage_number: int) -> Location: ...
    async def discard(self, group: int, queue: QueueId, numbers: Sequence[int]) -> int: ...
    async def reschedule(
        self, group: int, queue: QueueId, numbers: Sequence[int], due_us: Sequence[int]
    ) -> int: ...


class TopicSource(Protocol):
    """The part of `metadata.catalog.Catalog` that publishing uses."""

    def cached_topic(self, tenant_id: bytes, name: str) -> Topic | None: ...
    async def topic(self, tenant_id: bytes, name: str, *, refresh: bool = False) -> Topic:
        """Raises metadata.errors.NotFound or MetadataUnavailable."""
        ...
