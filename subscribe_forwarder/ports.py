"""The interfaces that the subscribe forwarder needs of the parts below it; its tests
replace them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

from metadata.delivery.books import CursorBooks
from metadata.delivery.due import QueueKey
from metadata.delivery.forwarded import Forwarded
from metadata.delivery.leases import Lease
from metadata.types import (
    Change,
    Claim,
    CursorKey,
    CursorState,
    CursorUpdate,
    Subscription,
    Topic,
    Unit,
)
from outbox.staging import Output
from store_nodes.queue_id import QueueId

Buffer = bytes | memoryview


class Entry(Protocol):
    """One whole stored batch. `indices` are those of its messages that are here, None: all.
    `stage` is the stage number of the batch's first message, None where it was not staged."""

    @property
    def base_offset(self) -> int: ...
    @property
    def log_time_us(self) -> int: ...
    @property
    def stage(self) -> int | None: ...
    @property
    def indices(self) -> tuple[int, ...] | None: ...
    @property
    def batch(self) -> Buffer: ...


class Fetched(Protocol):
    """The messages of a replica from an offset on."""

    @property
    def entries(self) -> Sequence[Entry]: ...
    @property
    def first_offset(self) -> int: ...
    @property
    def readable_end(self) -> int: ...


class Offsets(Protocol):
    """The bounds of a queue."""

    @property
    def queue(self) -> bytes: ...
    @property
    def first(self) -> int: ...
    @property
    def end(self) -> int: ...
    @property
    def sealed(self) -> bool: ...


class Location(Protocol):
    """The fate of a staged message: staged, offset, discarded or truncated."""

    @property
    def state(self) -> str: ...
    @property
    def offset(self) -> int | None: ...


class StagedEntry(Protocol):
    """One whole staged batch."""

    @property
    def base_stage(self) -> int: ...
    @property
    def messages(self) -> int: ...
    @property
    def log_time_us(self) -> int: ...
    @property
    def batch(self) -> Buffer: ...


class StagedInfo(Protocol):
    """A message that waits for its release."""

    @property
    def stage_number(self) -> int: ...
    @property
    def due_us(self) -> int | None: ...


class StagedPage(Protocol):
    """Messages that wait, by number."""

    @property
    def staged(self) -> Sequence[StagedInfo]: ...


class Watch(Protocol):
    """A stream of queue changes of one group, kept over reconnects and leader changes."""

    def add(self, queue: QueueId) -> None: ...
    def remove(self, queue: QueueId) -> None: ...
    def close(self) -> None: ...


class Store(Protocol):
    """The part of `store_nodes.client.StoreClient` that subscribing uses; raises StoreError."""

    async def fetch(
        self,
        group: int,
        queue: QueueId,
        offset: int,
        max_bytes: int,
        *,
        min_end: int | None = None,
    ) -> Fetched: ...
    async def offsets(self, group: int, queue: QueueId) -> Offsets: ...
    async def offset_at(self, group: int, queue: QueueId, time_us: int) -> int: ...
    async def locate(self, group: int, queue: QueueId, stage_number: int) -> Location: ...
    async def staged(self, group: int, queue: QueueId, after: int, limit: int) -> StagedPage: ...
    async def fetch_staged(
        self, group: int, queue: QueueId, stage_number: int, max_bytes: int
    ) -> Sequence[StagedEntry]: ...
    def watch(self, group: int, on_change: Callable[[Sequence[Offsets]], None]) -> Watch: ...


class Catalog(Protocol):
    """The part of `metadata.catalog.Catalog` that subscribing uses."""

    async def topic(self, tenant_id: bytes, name: str, *, refresh: bool = False) -> Topic: ...
    async def topic_by_uid(self, tenant_id: bytes, uid: bytes) -> Topic: ...
    async def subscription(
        self, tenant_id: bytes, name: str, *, refresh: bool = False
    ) -> Subscription: ...
    async def subscriptions_of(
        self, tenant_id: bytes, topic_uid: bytes
    ) -> tuple[Subscription, ...]: ...


class ForwardedMessages(Protocol):
    """The part of `metadata.delivery.forwarded.ForwardedRepository` that subscribing uses."""

    async def find(self, queue: QueueKey, numbers: Sequence[int]) -> Mapping[int, Forwarded]: ...


class OfTopic(Protocol):
    """An object of a topic, such as a subscription."""

    @property
    def tenant_id(self) -> bytes: ...
    @property
    def topic_uid(self) -> bytes: ...


class Feed(Protocol):
    """The part of `metadata.feed.ChangeFeed` that subscribing uses."""

    def add_listener(self, listener: Callable[[Sequence[Change]], Awaitable[None]]) -> None: ...


T_contra = TypeVar("T_contra", contravariant=True)


class Flush(Protocol[T_contra]):
    """Returns once what these hold is committed; raises a 503 Problem."""

    async def __call__(self, all_tracked: Iterable[T_contra], /) -> None: ...


class Cursors(Protocol):
    """The part of `metadata.delivery.cursors.CursorRepository` that subscribing uses."""

    async def flush(self, updates: Sequence[CursorUpdate]) -> Mapping[CursorKey, int]: ...
    async def load(self, keys: Iterable[Unit]) -> list[CursorState]: ...
    async def books(self, tenant_id: bytes, subscription_uid: bytes) -> Sequence[CursorBooks]: ...
    async def books_of(self, keys: Sequence[CursorKey]) -> Sequence[CursorBooks]: ...
    async def unbalanced_in(self, partitions: Iterable[Unit]) -> Sequence[CursorBooks]: ...
    async def of_topic(self, tenant_id: bytes, topic_uid: bytes) -> tuple[CursorState, ...]: ...


class Assignments(Protocol):
    """The part of `metadata.delivery.assignments.AssignmentRepository` that subscribing uses."""

    async def claim(self, incarnation: bytes, keys: Iterable[Unit]) -> dict[Unit, Claim]: ...
    async def claimable(self, incarnation: bytes) -> list[Unit]: ...
    async def release(self, incarnation: bytes, keys: Iterable[Unit]) -> int: ...
    async def split(self, incarnation: bytes, unit: Unit) -> bool: ...
    async def merge(self, incarnation: bytes, unit: Unit) -> tuple[CursorState, ...] | None: ...


class Leases(Protocol):
    """The part of `metadata.delivery.leases.LeaseRepository` that subscribing uses."""

    async def register(
        self, incarnation: bytes, *, role: str, address: str = "", weight: float = 1.0
    ) -> Lease: ...
    async def renew(
        self, incarnation: bytes, *, role: str = "subscribe", load: bytes | None = None
    ) -> Lease: ...
    async def leave(self, incarnation: bytes) -> None: ...
    async def release(self, incarnation: bytes) -> None: ...


class Outputs(Protocol):
    """Reads the messages that an ack publishes: `publish_forwarder.outputs.OutputReader`."""

    async def read(
        self, tenant_id: bytes, raw: bytes, *, refresh: bool = False
    ) -> list[Output]: ...
