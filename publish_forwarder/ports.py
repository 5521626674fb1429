"""What the publish forwarder needs of the parts below it: the seam its tests stand on."""

from __future__ import annotations

import asyncio
from typing import Protocol

from metadata.types import Topic
from store_nodes.client.appender import Receipt
from store_nodes.queue_id import QueueId
from store_nodes.wire import Durability


class Appender(Protocol):
    """Ordered appends to one queue under a session, retried by sequence over leader changes."""

    def append_nowait(
        self, batch: bytes, count: int, *, durability: Durability, timeout_s: float
    ) -> asyncio.Future[Receipt]:
        """Fails with a NotDone or OutcomeUnknown of store_nodes.errors; may raise one at once."""
        ...


class Store(Protocol):
    """The part of `store_nodes.client.StoreClient` that publishing uses."""

    def has_leader(self, group: int) -> bool: ...
    def appender(self, group: int, queue: QueueId) -> Appender: ...


class TopicSource(Protocol):
    """The part of `metadata.catalog.Catalog` that publishing uses."""

    def cached_topic(self, tenant_id: bytes, name: str) -> Topic | None: ...
    async def topic(self, tenant_id: bytes, name: str, *, refresh: bool = False) -> Topic:
        """Raises metadata.errors.NotFound or MetadataUnavailable."""
        ...
