"""Cursor rows: the ack state of (subscription, partition, lane), and the one hot statement."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from metadata.database import Database
from metadata.types import CursorKey, CursorState, CursorUpdate, PartitionKey


class CursorRepository:
    """Written by the partition's owner only: every write names the epoch it was claimed under."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def flush(self, updates: Sequence[CursorUpdate]) -> set[CursorKey]:
        """One statement, committed when this returns; the keys of the rows it wrote.

        A key that is missing has lost its epoch (or its subscription is gone, or was sought): drop
        what is in memory. MetadataUnavailable: nothing was written, flush again. OutcomeUnknown:
        freeze these cursors and claim their partitions again.
        """
        raise NotImplementedError

    async def load(self, keys: Iterable[PartitionKey]) -> list[CursorState]:
        """All cursors of these partitions, as committed; a claim already returns them."""
        raise NotImplementedError

    async def of_subscription(
        self, tenant_id: bytes, subscription_uid: bytes
    ) -> tuple[CursorState, ...]:
        """What any process may show: per partition, as of the last flush."""
        raise NotImplementedError

    async def of_topic(self, tenant_id: bytes, topic_uid: bytes) -> tuple[CursorState, ...]:
        """The cursors of every subscription of a topic, as of the last flush."""
        raise NotImplementedError
