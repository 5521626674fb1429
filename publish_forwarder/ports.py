"""The parts below the publish forwarder that it uses; tests put their own in place of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from appending.sender import Appender
from metadata.delivery.due import QueueKey
from metadata.delivery.forwarded import Forwarded
from metadata.types import Topic
from store_nodes.queue_id import QueueId


class Store(Protocol):
    """The part of `store_nodes.client.StoreClient` that accepting messages uses."""

    def has_leader(self, group: int) -> bool: ...
    def appender(self, group: int, queue: QueueId) -> Appender: ...


class Location(Protocol):
    """The state of a staged message: "staged", "offset" (with it), "discarded" or "truncated"."""

    @property
    def state(self) -> str: ...
    @property
    def offset(self) -> int | None: ...


class Offsets(Protocol):
    """The ends of a queue, and whether it is sealed."""

    @property
    def end(self) -> int: ...
    @property
    def stage_end(self) -> int: ...
    @property
    def sealed(self) -> bool: ...


class StagedStore(Protocol):
    """The part of `store_nodes.client.StoreClient` that changes staged messages; raises
    StoreError.
    """

    def appender(self, group: int, queue: QueueId) -> Appender: ...
    async def discard(
        self, group: int, queue: QueueId, numbers: Sequence[int], *, timeout_s: float = 5.0
    ) -> int: ...
    async def reschedule(
        self, group: int, queue: QueueId, numbers: Sequence[int], due_us: Sequence[int]
    ) -> int: ...
    async def locate(self, group: int, queue: QueueId, stage_number: int) -> Location: ...
    async def offsets(self, group: int, queue: QueueId) -> Offsets: ...


class StoreClient(Store, StagedStore, Protocol):
    """The part of `store_nodes.client.StoreClient` that the publish forwarder uses."""


class ForwardedMessages(Protocol):
    """The part of `metadata.delivery.forwarded.ForwardedRepository` that publishing uses."""

    async def find(self, queue: QueueKey, numbers: Sequence[int]) -> Mapping[int, object]: ...
    async def record(self, queue: QueueKey, moved: Sequence[Forwarded]) -> None: ...


class TopicSource(Protocol):
    """The part of `metadata.catalog.Catalog` that publishing uses."""

    def cached_topic(self, tenant_id: bytes, name: str) -> Topic | None: ...
    async def topic(self, tenant_id: bytes, name: str, *, refresh: bool = False) -> Topic:
        """Raises metadata.errors.NotFound or MetadataUnavailable."""
        ...
