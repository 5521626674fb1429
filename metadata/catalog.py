"""Topics and subscriptions as a process may use them: cached, kept fresh by the change feed.

A miss reads Postgres, so what any process was answered 201 for is usable here at once; *absent* is
never cached. With Postgres down what is cached stays usable for 15 minutes after the feed last
heard from it, then MetadataUnavailable.
"""

from __future__ import annotations

from metadata.feed import ChangeFeed
from metadata.subscriptions import SubscriptionRepository
from metadata.topics import TopicRepository
from metadata.types import Subscription, Topic

MAX_STALE_S = 900.0


class Catalog:
    """Bounded: the least recently used entries leave first."""

    def __init__(
        self,
        topics: TopicRepository,
        subscriptions: SubscriptionRepository,
        feed: ChangeFeed,
        *,
        max_entries: int = 100_000,
    ) -> None:
        self._topics = topics
        self._subscriptions = subscriptions
        self._feed = feed

    def cached_topic(self, tenant_id: bytes, name: str) -> Topic | None:
        """Without a coroutine, for the hot path: None says call `topic`."""
        raise NotImplementedError

    async def topic(self, tenant_id: bytes, name: str, *, refresh: bool = False) -> Topic:
        """The active topic of that name; NotFound, MetadataUnavailable.

        `refresh` reads Postgres whatever is cached: for a queue the store says is gone or sealed.
        """
        raise NotImplementedError

    async def topic_by_uid(self, tenant_id: bytes, uid: bytes) -> Topic:
        """The active topic of that uid; NotFound, MetadataUnavailable."""
        raise NotImplementedError

    async def subscription(
        self, tenant_id: bytes, name: str, *, refresh: bool = False
    ) -> Subscription:
        """NotFound, MetadataUnavailable."""
        raise NotImplementedError

    async def subscriptions_of(
        self, tenant_id: bytes, topic_uid: bytes
    ) -> tuple[Subscription, ...]:
        """All subscriptions of a topic, by name; MetadataUnavailable."""
        raise NotImplementedError
