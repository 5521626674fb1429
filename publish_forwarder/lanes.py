"""The rarer ways into the log: staging what has a delay, asking a sealed queue what it knows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from metadata.types import SealedPartition
from publish_forwarder.coalescer import Lane
from publish_forwarder.outcomes import Scheduled
from publish_forwarder.parcel import Parcel
from store_nodes.client.appender import Receipt
from store_nodes.commands import StageExtras
from store_nodes.errors import QueueNotFound, QueueSealed, StoreError


class StageLane(Lane):
    """Stages messages in the queue of a partition, beside the lane that appends to it."""

    __slots__ = ("_generation",)

    def __init__(self, generation: int, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._generation = generation

    def _append(
        self, batch: bytes, parcels: list[Parcel], count: int, timeout_s: float, dedup: bytes
    ) -> asyncio.Future[Receipt]:
        due_us = tuple(due_us for parcel in parcels for due_us in parcel.due_us or ())
        assert len(due_us) == count
        return self._appender.stage_nowait(
            batch,
            count,
            StageExtras(due_us),
            durability=parcels[0].durability,
            timeout_s=timeout_s,
            dedup=dedup,
            dedup_window_s=self.dedup_window_s,
        )

    def _settle_stored(self, parcels: list[Parcel], receipt: Receipt) -> int:
        number = receipt.base_offset
        for parcel in parcels:
            due_us = tuple(parcel.due_us or ())
            parcel.settle(
                Scheduled(
                    self.receipts,
                    self.partition,
                    self._generation,
                    number,
                    due_us,
                    receipt.log_time_us,
                )
            )
            number += len(parcel.messages)
        count = number - receipt.base_offset
        self._metrics.scheduled += count
        return count


class ProbeLane(Lane):
    """Asks a sealed queue whether its group knows the ids of what is about to go to a successor.

    An append to it is answered with what is known of its ids, else that it is sealed: then the
    parcels go on. It keeps their order like any lane.
    """

    __slots__ = ("_onward", "_sealed_time_us")

    def __init__(
        self,
        sealed: SealedPartition,
        onward: Callable[[list[Parcel], int], None],
        *args: Any,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self._sealed_time_us = sealed.sealed_time_us
        self._onward = onward

    def _failed(self, error: StoreError) -> None:
        if not isinstance(error, QueueSealed | QueueNotFound):
            super()._failed(error)
            return
        parcels, self.in_flight = self.in_flight, []
        self._onward(parcels, self._sealed_time_us)
        self._wake()
