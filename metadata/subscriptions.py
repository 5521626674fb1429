"""Subscriptions; their cursor rows are made with them and go with them."""

from __future__ import annotations

from collections.abc import Mapping

from metadata.database import Database
from metadata.types import Page, Subscription, SubscriptionSpec


class SubscriptionRepository:
    """Names are unique per tenant; a deleted name is free at once."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(
        self,
        tenant_id: bytes,
        topic_uid: bytes,
        spec: SubscriptionSpec,
        floors: Mapping[int, int],
    ) -> Subscription:
        """With a cursor per partition, from `floors[partition]` on (not below what was trimmed).

        NotFound when the topic isn't active any more, Conflict when the name is taken.
        """
        raise NotImplementedError

    async def get(self, tenant_id: bytes, name: str) -> Subscription:
        """NotFound."""
        raise NotImplementedError

    async def of_topic(self, tenant_id: bytes, topic_uid: bytes) -> tuple[Subscription, ...]:
        """All of one topic, by name."""
        raise NotImplementedError

    async def page(
        self,
        tenant_id: bytes,
        *,
        topic_uid: bytes | None = None,
        page_size: int = 100,
        page_token: str | None = None,
    ) -> Page[Subscription]:
        """By name; BadPageToken."""
        raise NotImplementedError

    async def delete(
        self, tenant_id: bytes, name: str, *, if_version: int | None = None
    ) -> Subscription:
        """Drops it with its cursors and deliveries; returns what it was. NotFound, Conflict."""
        raise NotImplementedError
