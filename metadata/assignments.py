"""Who owns a partition, decided by compare-and-set; each claim starts a new epoch."""

from __future__ import annotations

from collections.abc import Iterable

from metadata.database import Database
from metadata.types import Claim, PartitionKey


class AssignmentRepository:
    """One row per partition, made with the topic and gone with it."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def claim(
        self, incarnation: bytes, keys: Iterable[PartitionKey], *, era: int = 0
    ) -> dict[PartitionKey, Claim]:
        """Takes each partition whose last owner released it, is us, or has let its lease run out.

        Partitions that another live forwarder owns, or that are gone, are not in the answer.
        Claiming our own again is how an unknown flush is fenced. LeaseLost when our lease is over.
        """
        raise NotImplementedError

    async def claimable(self, incarnation: bytes) -> list[PartitionKey]:
        """Partitions of active topics that `claim` would give us and that we don't own."""
        raise NotImplementedError

    async def release(self, incarnation: bytes, keys: Iterable[PartitionKey] | None = None) -> int:
        """Gives up these partitions (None: all of ours); how many were ours."""
        raise NotImplementedError
