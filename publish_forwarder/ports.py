"""The parts below the publish forwarder that it uses; tests put their own in place of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from metadata.delivery.due import QueueKey
from metadata.delivery.forwarded import Forwarded
from metadata.types import Topic


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
