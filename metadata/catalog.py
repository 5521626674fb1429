"""Caches topics and subscriptions for a process, kept fresh by the change feed.

A miss reads Postgres, so what any process was answered 201 for is usable here at once; *absent* is
never cached. With Postgres down what is cached stays usable for 15 minutes after the feed last
heard from it, then MetadataUnavailable.

No stale reading gets in or out: if the value changes during a reading, it is read again, and of
two readings the one with the higher version stays. An old value that is returned could stay in
use, for no later change corrects it.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Generic, TypeVar

from metadata.errors import NotFound, NotYet
from metadata.feed import ChangeFeed
from metadata.subscriptions.subscriptions import SubscriptionRepository
from metadata.topics.topics import TopicRepository
from metadata.types import Change, ChangeKind, Subscription, Topic, TopicState

MAX_STALE_S = 900.0
MAX_REFRESHES = 100
"""Cached values that are read again for one batch of changes.

The others are dropped, and read when used.
"""

V = TypeVar("V")
Key = tuple[bytes, bytes | str]


class _Reading(Generic[V]):
    """Reads a value once for all callers that miss it at the same time."""

    __slots__ = ("overtaken", "task")

    def __init__(self, read: Callable[[], Awaitable[V]], keep: Callable[[V], None]) -> None:
        self.overtaken = False
        """Whether the value may have changed since the reading began."""
        self.task = asyncio.ensure_future(self._run(read, keep))

    async def _run(self, read: Callable[[], Awaitable[V]], keep: Callable[[V], None]) -> V:
        while True:
            self.overtaken = False
            try:
                value = await read()
            except NotFound:
                if not self.overtaken:
                    raise
            else:
                if not self.overtaken:
                    keep(value)
                    return value


class _LruCache(OrderedDict[Key, V], Generic[V]):
    """Keeps cached values; the least recently used one leaves first."""

    def __init__(self, max_entries: int) -> None:
        super().__init__()
        self._max_entries = max_entries

    def look(self, key: Key) -> V | None:
        """Return a cached value, and keep it longer than values that were used before it."""
        value = self.get(key)
        if value is not None:
            self.move_to_end(key)
        return value

    def put(self, key: Key, value: V) -> None:
        self[key] = value
        self.move_to_end(key)
        while len(self) > self._max_entries:
            self.popitem(last=False)


class Catalog:
    """Caches at most `max_entries` topics, subscriptions, and lists of subscriptions each."""

    def __init__(
        self,
        topics: TopicRepository,
        subscriptions: SubscriptionRepository,
        feed: ChangeFeed,
        *,
        max_entries: int = 100_000,
        max_stale_s: float = MAX_STALE_S,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._topics = topics
        self._subscriptions = subscriptions
        self._feed = feed
        self._max_stale_s = max_stale_s
        self._monotonic_s = monotonic_s
        self._by_name: _LruCache[Topic] = _LruCache(max_entries)
        self._by_uid: _LruCache[Topic] = _LruCache(max_entries)
        self._subscription: _LruCache[Subscription] = _LruCache(max_entries)
        self._of_topic: _LruCache[tuple[Subscription, ...]] = _LruCache(max_entries)
        self._readings: dict[tuple[str, Key], _Reading[Any]] = {}
        self._making: dict[Key, object] = {}
        """Topics that become active, of which no change was heard since that began."""
        feed.add_listener(self._apply)

    def cached_topic(self, tenant_id: bytes, name: str) -> Topic | None:
        """Return a topic from the cache; None if `topic` has to be awaited."""
        topic = self._by_name.look((tenant_id, name))
        return topic if topic is not None and self._usable() else None

    async def topic(self, tenant_id: bytes, name: str, *, refresh: bool = False) -> Topic:
        """Return the active topic of that name; raises NotFound and MetadataUnavailable.

        `refresh` reads Postgres whatever is cached: for a queue the store says is gone or sealed.
        """
        key = (tenant_id, name)
        if not refresh:
            cached = self.cached_topic(tenant_id, name)
            if cached is not None:
                return cached
        try:
            return await self._read("topic", key, self._read_topic, self._keep_topic, refresh)
        except NotFound:
            self._drop_topic(self._by_name.get(key))
            raise

    async def topic_by_uid(self, tenant_id: bytes, uid: bytes) -> Topic:
        """Return the active topic with a uid; raise NotFound or MetadataUnavailable."""
        key = (tenant_id, uid)
        cached = self._by_uid.look(key)
        if cached is not None and self._usable():
            return cached
        return await self._read("topic_by_uid", key, self._read_topic, self._keep_topic)

    async def subscription(
        self, tenant_id: bytes, name: str, *, refresh: bool = False
    ) -> Subscription:
        """Return the subscription with a name; raise NotFound or MetadataUnavailable."""
        key = (tenant_id, name)
        cached = self._subscription.look(key)
        if cached is not None and not refresh and self._usable():
            return cached
        try:
            return await self._read(
                "subscription", key, self._read_subscription, self._keep_subscription, refresh
            )
        except NotFound:
            self._drop_subscription(self._subscription.get(key))
            raise

    async def subscriptions_of(
        self, tenant_id: bytes, topic_uid: bytes
    ) -> tuple[Subscription, ...]:
        """Return all subscriptions of a topic, by name; raises MetadataUnavailable."""
        key = (tenant_id, topic_uid)
        cached = self._of_topic.look(key)
        if cached is not None and self._usable():
            return cached
        keep = partial(self._keep_of_topic, key)
        return await self._read("of_topic", key, self._read_of_topic, keep)

    async def made(
        self, topic: Topic, finish: Callable[[Topic], Awaitable[Topic | None]]
    ) -> Topic | None:
        """Return the topic that `finish` makes active, and keep it: nobody has subscribed to it.

        It is not kept if a change of it is heard of meanwhile, as a reading is not. None, and
        nothing kept, if it was active already.
        """
        key, token = (topic.tenant_id, topic.uid), object()
        self._making[key] = token
        try:
            active = await finish(topic)
            if active is not None and self._making.get(key) is token:
                self._keep_topic(active)
                self._of_topic.put(key, ())
            return active
        finally:
            if self._making.get(key) is token:
                del self._making[key]

    def _usable(self) -> bool:
        """Return whether the change feed is fresh enough for cached values to be used."""
        return self._monotonic_s() - self._feed.fresh_at_s() <= self._max_stale_s

    async def _read(
        self,
        kind: str,
        key: Key,
        read: Callable[[Key], Awaitable[V]],
        keep: Callable[[V], None],
        refresh: bool = False,
    ) -> V:
        """Read a value, or join the reading that is under way.

        That one may be older than what its joiner was told exists, so its NotFound is nobody's
        answer but its own.
        """
        flight = (kind, key)
        reading = self._readings.get(flight)
        if reading is None:
            reading = self._readings[flight] = _Reading(partial(read, key), keep)
            reading.task.add_done_callback(partial(self._landed, flight))
        elif refresh:
            reading.overtaken = True
        else:
            try:
                return await asyncio.shield(reading.task)
            except NotFound:
                return await self._read(kind, key, read, keep, refresh=True)
        return await asyncio.shield(reading.task)

    def _landed(self, flight: tuple[str, Key], task: asyncio.Task[Any]) -> None:
        del self._readings[flight]
        if not task.cancelled():
            task.exception()  # its callers may have gone; then nobody else asks

    async def _read_topic(self, key: Key) -> Topic:
        tenant_id, wanted = key
        if isinstance(wanted, str):
            topic = await self._topics.get(tenant_id, wanted)
        else:
            topic = await self._topics.get_by_uid(tenant_id, wanted)
        if topic.state is not TopicState.ACTIVE:
            missing = NotYet if topic.state is TopicState.CREATING else NotFound
            raise missing("topic", wanted if isinstance(wanted, str) else wanted.hex())
        return topic

    async def _read_subscription(self, key: Key) -> Subscription:
        tenant_id, name = key
        assert isinstance(name, str)
        return await self._subscriptions.get(tenant_id, name)

    async def _read_of_topic(self, key: Key) -> tuple[Subscription, ...]:
        tenant_id, uid = key
        assert isinstance(uid, bytes)
        return await self._subscriptions.of_topic(tenant_id, uid)

    def _keep_of_topic(self, key: Key, subscriptions: tuple[Subscription, ...]) -> None:
        self._of_topic.put(key, subscriptions)
        for subscription in subscriptions:
            self._keep_subscription(subscription)

    def _keep_topic(self, topic: Topic) -> None:
        key = (topic.tenant_id, topic.name)
        cached = self._by_name.get(key)
        if cached is not None and cached.version > topic.version:
            return
        if cached is not None and cached.uid != topic.uid:
            self._drop_topic(cached)
        self._by_name.put(key, topic)
        self._by_uid.put((topic.tenant_id, topic.uid), topic)

    def _drop_topic(self, topic: Topic | None) -> None:
        if topic is None:
            return
        named = self._by_name.get((topic.tenant_id, topic.name))
        if named is not None and named.uid == topic.uid:
            del self._by_name[topic.tenant_id, topic.name]
        self._by_uid.pop((topic.tenant_id, topic.uid), None)
        self._of_topic.pop((topic.tenant_id, topic.uid), None)

    def _keep_subscription(self, subscription: Subscription) -> None:
        key = (subscription.tenant_id, subscription.name)
        cached = self._subscription.get(key)
        if cached is not None and cached.version > subscription.version:
            return
        self._subscription.put(key, subscription)
        listed = self._of_topic.get((subscription.tenant_id, subscription.topic_uid))
        if listed is not None and subscription not in listed:
            del self._of_topic[subscription.tenant_id, subscription.topic_uid]

    def _drop_subscription(self, subscription: Subscription | None) -> None:
        if subscription is None:
            return
        self._subscription.pop((subscription.tenant_id, subscription.name), None)
        self._of_topic.pop((subscription.tenant_id, subscription.topic_uid), None)

    async def _apply(self, changes: Sequence[Change]) -> None:
        """Reads again what is cached of the changed; raises when it can't, and is called again."""
        self._overtake(changes)
        if any(change.kind is ChangeKind.RESET for change in changes):
            for shelf in (self._by_name, self._by_uid, self._subscription, self._of_topic):
                shelf.clear()
            return
        refreshes: OrderedDict[tuple[ChangeKind, bytes, bytes], Change] = OrderedDict()
        for change in changes:
            if self._is_cached(change):
                refreshes[change.kind, change.tenant_id, change.uid] = change
        for count, change in enumerate(refreshes.values()):
            if change.kind is ChangeKind.TOPIC:
                await self._refresh_topic(change, drop=count >= MAX_REFRESHES)
            else:
                await self._refresh_subscription(change, drop=count >= MAX_REFRESHES)

    def _overtake(self, changes: Sequence[Change]) -> None:
        """Have the values that changed read again by readings that began before, and topics that
        changed while they became active not kept."""
        changed: set[tuple[str, Key]] = set()
        for change in changes:
            tenant_id = change.tenant_id
            if change.kind is ChangeKind.RESET:
                changed.update(self._readings)
                self._making.clear()
            elif change.kind is ChangeKind.TOPIC:
                changed.add(("topic", (tenant_id, change.name)))
                changed.add(("topic_by_uid", (tenant_id, change.uid)))
                changed.add(("of_topic", (tenant_id, change.uid)))
                self._making.pop((tenant_id, change.uid), None)
            elif change.kind is ChangeKind.SUBSCRIPTION:
                changed.add(("subscription", (tenant_id, change.name)))
                changed.add(("of_topic", (tenant_id, change.topic_uid)))
                self._making.pop((tenant_id, change.topic_uid), None)
        for flight in changed & self._readings.keys():
            self._readings[flight].overtaken = True

    def _is_cached(self, change: Change) -> bool:
        """Return whether something of a change is cached that may be older than it."""
        if change.kind is ChangeKind.TOPIC:
            cached = self._cached(change)
            return cached is not None and cached.version < change.version
        if change.kind is ChangeKind.SUBSCRIPTION:
            return (change.tenant_id, change.name) in self._subscription or (
                change.tenant_id,
                change.topic_uid,
            ) in self._of_topic
        return False

    def _cached(self, change: Change) -> Topic | None:
        """Return the cached topic that a change is about, from either cache (they evict apart)."""
        named = self._by_name.get((change.tenant_id, change.name))
        if named is not None and named.uid == change.uid:
            return named
        return self._by_uid.get((change.tenant_id, change.uid))

    async def _refresh_topic(self, change: Change, *, drop: bool) -> None:
        cached = self._cached(change)
        try:
            if drop:
                raise NotFound("topic", change.name)
            topic = await self._topics.get_by_uid(change.tenant_id, change.uid)
            if topic.state is not TopicState.ACTIVE:
                raise NotFound("topic", change.name)
        except NotFound:
            self._drop_topic(cached)
        else:
            self._keep_topic(topic)

    async def _refresh_subscription(self, change: Change, *, drop: bool) -> None:
        named = (change.tenant_id, change.name)
        if not drop and (change.tenant_id, change.topic_uid) in self._of_topic:
            listed = await self._subscriptions.of_topic(change.tenant_id, change.topic_uid)
            self._of_topic.put((change.tenant_id, change.topic_uid), listed)
        else:
            self._of_topic.pop((change.tenant_id, change.topic_uid), None)
        try:
            if drop or named not in self._subscription:
                raise NotFound("subscription", change.name)
            subscription = await self._subscriptions.get(change.tenant_id, change.name)
        except NotFound:
            self._subscription.pop(named, None)
        else:
            self._keep_subscription(subscription)
