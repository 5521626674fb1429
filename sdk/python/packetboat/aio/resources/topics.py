"""Topics: make, change, grow and delete them, and where their partitions are."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Unpack

from packetboat.aio.resources.pages import every
from packetboat.aio.sender import AsyncSender
from packetboat.calls import schemas
from packetboat.calls import topics as calls
from packetboat.models import (
    FilterPreview,
    Hold,
    Page,
    Partitions,
    SchemaPreviewed,
    SchemaType,
    Topic,
    TopicChanges,
    TopicSettings,
)


class AsyncTopics:
    """Topics: make, change, grow and delete them, and where their partitions are."""

    def __init__(self, sender: AsyncSender) -> None:
        self._sender = sender

    async def create(
        self, name: str, *, timeout_s: float | None = None, **settings: Unpack[TopicSettings]
    ) -> Topic:
        """Returns when every partition is there. Raises Conflict where the name is taken."""
        return await self._sender.send(calls.create_topic(name, settings), timeout_s)

    async def get(self, name: str, *, timeout_s: float | None = None) -> Topic:
        """Raises NotFound."""
        return await self._sender.send(calls.get_topic(name), timeout_s)

    def list(self, *, page_size: int = 100, timeout_s: float | None = None) -> AsyncIterator[Topic]:
        """All of them, page by page."""
        return every(self._sender, lambda token: calls.list_topics(page_size, token), timeout_s)

    async def page(
        self, *, page_size: int = 100, page_token: str | None = None, timeout_s: float | None = None
    ) -> Page[Topic]:
        """One page; `page_token` is that of the page before."""
        return await self._sender.send(calls.list_topics(page_size, page_token), timeout_s)

    async def put(
        self,
        name: str,
        *,
        if_match: str | None = None,
        timeout_s: float | None = None,
        **settings: Unpack[TopicSettings],
    ) -> Topic:
        """Makes it, or changes it to this; what is not given gets its default.

        `if_match` is the etag of the topic that is to be changed; Conflict where it has another.
        """
        return await self._sender.send(calls.put_topic(name, settings, if_match), timeout_s)

    async def update(
        self,
        name: str,
        *,
        if_match: str | None = None,
        timeout_s: float | None = None,
        **changes: Unpack[TopicChanges],
    ) -> Topic:
        """Changes what is given, at every process within 2 s; the rest stays."""
        return await self._sender.send(calls.patch_topic(name, changes, if_match), timeout_s)

    async def delete(
        self,
        name: str,
        *,
        force: bool = False,
        if_match: str | None = None,
        timeout_s: float | None = None,
    ) -> None:
        """With its messages and subscriptions. Raises Conflict while something would be lost
        (`holds` says what), unless forced."""
        await self._sender.send(calls.delete_topic(name, force, if_match), timeout_s)

    async def holds(self, name: str, *, timeout_s: float | None = None) -> tuple[Hold, ...]:
        """What would be lost with it: unacked and delayed messages, what exports have not taken,
        snapshots, open dead letters."""
        return await self._sender.send(calls.list_topic_holds(name), timeout_s)

    async def grow(
        self, name: str, partitions: int, *, timeout_s: float | None = None
    ) -> Partitions:
        """`partitions` is how many it has afterwards, never fewer than now. Publishing goes on;
        `placement` of the answer is None when it is done."""
        return await self._sender.send(calls.grow_topic(name, partitions), timeout_s)

    async def partitions(self, name: str, *, timeout_s: float | None = None) -> Partitions:
        """Where its partitions are, and a move or growth that is under way."""
        return await self._sender.send(calls.list_partitions(name), timeout_s)

    async def move(
        self, name: str, partition: int, group: int, *, timeout_s: float | None = None
    ) -> Partitions:
        """Moves a partition to another group of store nodes. Publishing goes on, in order."""
        return await self._sender.send(calls.move_partition(name, partition, group), timeout_s)

    async def preview_filter(
        self, name: str, expression: str, *, messages: int = 1000, timeout_s: float | None = None
    ) -> FilterPreview:
        """What a CEL expression gives of the most recent messages, up to 10,000."""
        return await self._sender.send(
            calls.preview_topic_filter(name, expression, messages), timeout_s
        )

    async def preview_schema(
        self,
        name: str,
        schema: str | None = None,
        *,
        type: SchemaType | None = None,
        definition: object = None,
        messages: int = 100,
        timeout_s: float | None = None,
    ) -> SchemaPreviewed:
        """How many of the newest messages, up to 1,000, fit a schema, by its name or as given."""
        call = schemas.preview_schema(name, schema, type, definition, messages)
        return await self._sender.send(call, timeout_s)
