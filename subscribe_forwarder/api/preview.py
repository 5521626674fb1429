"""Previews filters: reads the newest messages of a topic, as replays do, and counts.

Any process can answer. A worker process evaluates the expressions, never the event loop. A preview
ends after MAX_EXAMINED_BYTES of messages, and after as many messages as were asked for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import aclosing

import msgspec

from edge.asgi import Receive, Route, Scope, Send, path_param, read_body, respond, tenant_of
from edge.bodies import decode
from edge.expressions import BadExpression
from edge.expressions.ahead import read_ahead
from edge.problem import Problem, invalid
from edge.shares import Shares
from metadata.types import Topic
from openapi import subscriptions, topics
from openapi.common import FilterPreviewRequest
from positions.places import Bounds
from subscribe_forwarder.delivery.reading.render import PartitionRenderer
from subscribe_forwarder.delivery.reading.replay import LaneReplay, Replays, Truncated
from subscribe_forwarder.delivery.selection.preview import Preview
from subscribe_forwarder.delivery.state.lanes import Lane
from subscribe_forwarder.forwarder import SubscribeForwarder

MAX_EXAMINED_BYTES = 64 * 1024 * 1024
MAX_PREVIEWS = 4
"""The most previews of one process at the same time."""
MAX_BODY_BYTES = 64 * 1024


_BODY = msgspec.json.Decoder(FilterPreviewRequest)


class PreviewRoutes:
    """The handlers. They raise Problems, StoreError and MetadataError, which the dispatcher
    answers."""

    def __init__(self, forwarder: SubscribeForwarder) -> None:
        self._forwarder = forwarder
        self._replays: Replays | None = None
        self._running = Shares(MAX_PREVIEWS, name="previews")

    def routes(self) -> list[Route]:
        return [
            Route(subscriptions.OPERATIONS["previewSubscriptionFilter"], self.of_subscription),
            Route(topics.OPERATIONS["previewTopicFilter"], self.of_topic),
        ]

    async def of_subscription(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = decode(await read_body(scope, receive, MAX_BODY_BYTES), _BODY)
        catalog, tenant_id = self._forwarder.catalog, tenant_of(scope)
        subscription = await catalog.subscription(tenant_id, path_param(scope, "name"))
        topic = await catalog.topic_by_uid(tenant_id, subscription.topic_uid)
        await self._answer(scope, send, topic, body, subscription.filter)

    async def of_topic(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = decode(await read_body(scope, receive, MAX_BODY_BYTES), _BODY)
        topic = await self._forwarder.catalog.topic(tenant_of(scope), path_param(scope, "topic"))
        await self._answer(scope, send, topic, body, None)

    async def _answer(
        self,
        scope: Scope,
        send: Send,
        topic: Topic,
        body: FilterPreviewRequest,
        present: str | None,
    ) -> None:
        with self._running.held_by(topic.tenant_id) as refused:
            if refused is not None:
                detail = f"{self._running.held:g} previews are running here; ask again."
                raise Problem.of("too-many-replays", detail, retry_after_s=1.0)
            for text in (body.filter, present):
                await read_ahead(scope, text)
            try:
                preview = Preview(body.filter, present)
            except BadExpression as error:
                raise invalid("The filter is not taken.", [error.field_error("filter")]) from error
            await self._read(topic, preview, body.messages)
        await respond(send, 200, msgspec.json.encode(preview.result()))

    async def _read(self, topic: Topic, preview: Preview, wanted: int) -> None:
        forwarder, evaluator = self._forwarder, self._forwarder.evaluator
        replays = self._replays or Replays(
            forwarder.history, forwarder.catalog, lambda: forwarder.load.loop_lag_s
        )
        self._replays = replays
        lanes = {
            Lane(each.number, each.lane): LaneReplay(replays, topic, each.number, each.lane)
            for each in topic.partitions
        }
        stored = await asyncio.gather(*(lane.look() for lane in lanes.values()))
        shares = share_out(wanted, dict(zip(lanes, stored, strict=True)))
        for place, share in shares.items():
            lane = lanes[place]
            renderer = PartitionRenderer(topic.uid, place.partition, lane=place.lane)
            try:
                async with aclosing(lane.reads(lane.bounds.end - share)) as reads:
                    async for found in reads:
                        await replays.turns.begin()
                        for group in preview.pieces.groups(found):
                            if evaluator is not None:
                                replays.turns.end()
                                await evaluator.prepare(topic.tenant_id, preview.pieces, group)
                                await replays.turns.begin()
                            for piece in group:
                                preview.look(*piece, renderer)
                                if preview.examined_bytes > MAX_EXAMINED_BYTES:
                                    return
                                if replays.turns.over:
                                    await replays.turns.renew()
                        replays.turns.end()
            except Truncated:
                continue  # It was trimmed since.


def share_out(wanted: int, stored: Mapping[Lane, Bounds]) -> dict[Lane, int]:
    """Return the number of messages to read of each place: an equal share. A place that has fewer
    leaves the rest to the others."""
    shares: dict[Lane, int] = {}
    by_size = sorted(stored, key=lambda place: stored[place].end - stored[place].first)
    for index, place in enumerate(by_size):
        bounds = stored[place]
        share = min(bounds.end - bounds.first, -(-wanted // (len(by_size) - index)))
        wanted -= share
        if share > 0:
            shares[place] = share
    return shares
