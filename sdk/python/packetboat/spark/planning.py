"""Finds the bounds of lanes now, and so the messages to read. Runs on Spark's driver."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import NamedTuple, TypeVar

from packetboat.calls import Call, messaging
from packetboat.errors import NotAuthorized, PacketboatError
from packetboat.models import PartitionGeneration, PartitionOffsets
from packetboat.spark.errors import InvalidOption, ReadFailed
from packetboat.spark.options import Edge, LaneNumber, Place, ReadOptions
from packetboat.spark.pace import wait
from packetboat.spark.ranges import Lane, Split, within
from packetboat.spark.reading import refused
from packetboat.sync.sender import Sender
from packetboat.transport import open_transport
from packetboat.tries import Retries

T = TypeVar("T")
K = TypeVar("K")
AT_ONCE = 8
EPOCH = datetime.fromtimestamp(0, UTC)


class Bounds(NamedTuple):
    """The first offset stored, and one past the last."""

    first: int
    end: int


@contextmanager
def sender_of(options: ReadOptions) -> Iterator[Sender]:
    """A sender that tries nothing twice: who uses it does."""
    sender = Sender(options.connection, open_transport(options.connection))
    try:
        yield sender
    finally:
        sender.close()


class Planner:
    """Asks about topics. Its answers count everything that was published before it was asked.

    Raises ReadFailed where nobody answers for `retry_for_s`, and InvalidOption for partitions that
    a topic does not have.
    """

    def __init__(self, sender: Sender, options: ReadOptions) -> None:
        self._sender = sender
        self._options = options

    def splits(self) -> list[Split]:
        """Return the splits of a batch: for each lane, in order, all messages between the
        places.
        """
        if self._options.splits is not None:
            return list(self._options.splits)
        bounds = self.bounds()
        starts = self.offsets(self._options.start, bounds, "earliest")
        ends = self.offsets(self._options.end, bounds, "latest")
        splits = []
        for lane, (first, end) in bounds.items():
            start = starts[lane]
            if start < first and not self._options.skips_truncated:
                raise ReadFailed(
                    f"{lane}: nothing is stored at offset {start} any more, the first there is, is "
                    f"{first}. Begin there, or read with on_truncated=skip"
                )
            splits.append(Split(lane, max(start, first), min(ends[lane], end)))
        return splits

    def bounds(self) -> dict[Lane, Bounds]:
        """Return the present bounds of all lanes to read, by name and number."""
        found: dict[Lane, Bounds | None] = {}
        for topic in self._options.topics:
            found |= self._of_topic(topic)
        unknown = [lane for lane, bounds in found.items() if bounds is None]
        asked = self._each(unknown, lambda lane: self._at(lane, EPOCH))
        exact = {lane: Bounds(offsets.first, offsets.end) for lane, offsets in asked.items()}
        return {lane: bounds or exact[lane] for lane, bounds in sorted(found.items())}

    def offsets(self, place: Place, bounds: Mapping[Lane, Bounds], edge: Edge) -> dict[Lane, int]:
        """Return the offset of a place in each lane; for a lane that it does not name, the
        offset of `edge`.
        """
        if isinstance(place, datetime):
            at = self._each(bounds, lambda lane: self._at(lane, place))
            return {lane: offsets.at for lane, offsets in at.items()}
        return {lane: _offset(place, lane, known, edge) for lane, known in bounds.items()}

    def narrowed(
        self, splits: list[Split], start: datetime | None, end: datetime | None
    ) -> list[Split]:
        """Return the parts of splits from one time on, and before another."""
        if start is not None:
            at = self._offsets_at(splits, start)
            splits = [within(split, at.get(split.lane, 0), split.end) for split in splits]
        if end is not None:
            at = self._offsets_at(splits, end)
            splits = [within(split, split.start, at.get(split.lane, 0)) for split in splits]
        return splits

    def _offsets_at(self, splits: Iterable[Split], moment: datetime) -> dict[Lane, int]:
        """Return the offsets of a time in the lanes of splits that are not empty."""
        lanes = {split.lane for split in splits if split.start < split.end}
        found = self._each(lanes, lambda lane: self._at(lane, moment))
        return {lane: offsets.at for lane, offsets in found.items()}

    def _of_topic(self, topic: str) -> dict[Lane, Bounds | None]:
        """Return the bounds of the topic's lanes; None where only the lane itself can be asked."""
        lanes: dict[Lane, list[PartitionGeneration]] = {}
        for each in self._ask(messaging.list_partitions(topic)).partitions:
            lanes.setdefault(Lane(topic, each.partition, each.lane), []).append(each)
        wanted = self._options.partitions
        if wanted is not None:
            missing = sorted(wanted - {lane.partition for lane in lanes})
            if missing:
                raise InvalidOption(f"partitions: topic {topic} has no {missing}")
            lanes = {lane: found for lane, found in lanes.items() if lane.partition in wanted}
        return {lane: _bounds(generations) for lane, generations in lanes.items()}

    def _at(self, lane: Lane, moment: datetime) -> PartitionOffsets:
        call = messaging.offsets_of_partition(lane.topic, lane.partition, moment, lane.lane or None)
        return self._ask(call)

    def _each(self, lanes: Iterable[K], ask: Callable[[K], T]) -> dict[K, T]:
        asked = list(lanes)
        with ThreadPoolExecutor(AT_ONCE) as threads:
            return dict(zip(asked, threads.map(ask, asked), strict=True))

    def _ask(self, call: Call[T]) -> T:
        return ask(self._sender, call, self._options.retry_for_s)


def ask(sender: Sender, call: Call[T], retry_for_s: float) -> T:
    """Return the answer of a call that reads. Raises ReadFailed."""
    tries = Retries(retry_for_s, True, time.monotonic())
    while True:
        try:
            return sender.send(call)
        except NotAuthorized as error:
            raise refused(error) from error
        except PacketboatError as error:
            pause_s = tries.pause_s(error, time.monotonic())
            if pause_s is None:
                raise ReadFailed(str(error)) from error
            wait(pause_s)


def _bounds(generations: list[PartitionGeneration]) -> Bounds | None:
    """Return the bounds of a lane that never moved.

    Return None for others: it is not known which of the sealed generations are gone, and which only
    do not answer.
    """
    (*sealed, present) = generations
    if sealed or present.first is None or present.end is None:
        return None
    return Bounds(present.first, present.end)


def _offset(
    place: Edge | int | Mapping[LaneNumber, int], lane: Lane, bounds: Bounds, edge: Edge
) -> int:
    if isinstance(place, Mapping):
        place = place.get((lane.partition, lane.lane), edge)
    if isinstance(place, int):
        return place
    return bounds.end if place == "latest" else bounds.first
