"""Topics and their partitions: one aggregate, one repository."""

from __future__ import annotations

from collections.abc import Sequence

from metadata.database import Database
from metadata.types import Page, Topic, TopicSpec


class TopicRepository:
    """Intent first: a row is `creating` before its queues exist, `deleting` before they go."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(self, tenant_id: bytes, spec: TopicSpec, placements: Sequence[int]) -> Topic:
        """A `creating` topic with one partition per group in `placements`; Conflict if named."""
        raise NotImplementedError

    async def activate(self, tenant_id: bytes, uid: bytes) -> Topic:
        """creating → active, once every queue exists. Idempotent; NotFound when it is going."""
        raise NotImplementedError

    async def get(self, tenant_id: bytes, name: str) -> Topic:
        """The topic of that name that is creating or active; NotFound."""
        raise NotImplementedError

    async def get_by_uid(self, tenant_id: bytes, uid: bytes) -> Topic:
        """In any state; NotFound."""
        raise NotImplementedError

    async def page(
        self, tenant_id: bytes, *, page_size: int = 100, page_token: str | None = None
    ) -> Page[Topic]:
        """Active topics by name; BadPageToken."""
        raise NotImplementedError

    async def mark_deleting(
        self, tenant_id: bytes, name: str, *, if_version: int | None = None
    ) -> Topic:
        """Frees the name and drops subscriptions, cursors and claims; the queues are still there.

        The caller then seals and deletes the queues of the returned topic and calls `remove`.
        """
        raise NotImplementedError

    async def remove(self, tenant_id: bytes, uid: bytes) -> None:
        """Drops the row of a `deleting` topic, after its queues are gone. Idempotent."""
        raise NotImplementedError

    async def unfinished(self, *, older_than_s: float, limit: int = 100) -> list[Topic]:
        """Topics of any tenant left `creating` or `deleting` by a process that died."""
        raise NotImplementedError
