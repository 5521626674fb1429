# Generated from openapi/: `make generate`. Do not edit.
"""Topics, and the places of their partitions."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Unpack

from packetboat.aio.resources.pages import every
from packetboat.aio.sender import AsyncSender
from packetboat.calls import messaging as calls
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
    """Topics, and the places of their partitions."""

    def __init__(self, sender: AsyncSender) -> None:
        self._sender = sender

    async def create(
        self, name: str, *, timeout_s: float | None = None, **settings: Unpack[TopicSettings]
    ) -> Topic:
        """Create a topic, and return when every partition is there. Raise Conflict where the name
        is taken."""
        return await self._sender.send(calls.create_topic(name, settings), timeout_s)

    async def get(self, name: str, *, timeout_s: float | None = None) -> Topic:
        """Return the topic. Raise NotFound where there is none of this name."""
        return await self._sender.send(calls.get_topic(name), timeout_s)

    def list(self, *, page_size: int = 100, timeout_s: float | None = None) -> AsyncIterator[Topic]:
        """Iterate over all of them, page by page."""
        return every(self._sender, lambda token: calls.list_topics(page_size, token), timeout_s)

    async def page(
        self, *, page_size: int = 100, page_token: str | None = None, timeout_s: float | None = None
    ) -> Page[Topic]:
        """Return one page; `page_token` is that of the page before."""
        return await self._sender.send(calls.list_topics(page_size, page_token), timeout_s)

    async def put(
        self,
        name: str,
        *,
        if_match: str | None = None,
        timeout_s: float | None = None,
        **settings: Unpack[TopicSettings],
    ) -> Topic:
        """Create the topic, or change it to this; fields that are not given get their defaults.
        `if_match` is the etag of the topic that you want to change. Raise Conflict where the topic
        has another."""
        return await self._sender.send(calls.put_topic(name, settings, if_match), timeout_s)

    async def update(
        self,
        name: str,
        *,
        if_match: str | None = None,
        timeout_s: float | None = None,
        **changes: Unpack[TopicChanges],
    ) -> Topic:
        """Change the fields that are given; the others stay. Every process knows the change within
        2 s."""
        return await self._sender.send(calls.patch_topic(name, changes, if_match), timeout_s)

    async def delete(
        self,
        name: str,
        *,
        if_match: str | None = None,
        force: bool = False,
        timeout_s: float | None = None,
    ) -> None:
        """Delete the topic with its messages and subscriptions. Raise Conflict while something
        would be lost (`holds` lists it), unless `force` is true."""
        await self._sender.send(calls.delete_topic(name, if_match, force), timeout_s)

    async def holds(self, name: str, *, timeout_s: float | None = None) -> tuple[Hold, ...]:
        """Return the reasons not to delete it: unacked and delayed messages, messages that an
        export has not taken, snapshots, open dead letters."""
        return await self._sender.send(calls.list_topic_holds(name), timeout_s)

    async def grow(
        self, name: str, partitions: int, *, timeout_s: float | None = None
    ) -> Partitions:
        """Give the topic more partitions; `partitions` is the number afterwards, never fewer than
        now. Publishing goes on; `placement` of the answer is None when it is done."""
        return await self._sender.send(calls.grow_topic(name, partitions), timeout_s)

    async def partitions(self, name: str, *, timeout_s: float | None = None) -> Partitions:
        """Return the places of its partitions, and a move or growth that is under way."""
        return await self._sender.send(calls.list_partitions(name), timeout_s)

    async def move(
        self, name: str, partition: int, group: int, *, timeout_s: float | None = None
    ) -> Partitions:
        """Move a partition to another group of store nodes. Publishing goes on, in order."""
        return await self._sender.send(calls.move_partition(name, partition, group), timeout_s)

    async def preview_filter(
        self, name: str, expression: str, *, messages: int = 1000, timeout_s: float | None = None
    ) -> FilterPreview:
        """Try a CEL expression on the most recent messages, up to 10,000."""
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
        """Count the newest messages, up to 1,000, that fit a schema, which you name or give."""
        return await self._sender.send(
            calls.preview_schema(name, schema, type, definition, messages), timeout_s
        )
